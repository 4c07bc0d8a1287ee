"""The server in this process that the client is tested with."""

from tests.client.conftest import server

__all__ = ["server"]
