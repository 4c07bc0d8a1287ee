"""What a server calls itself in the trailers of operator calls."""

import socket
from collections.abc import Sequence
from typing import Final

from aclgrad_server.exposure import UNIX

_ANY: Final = ("0.0.0.0", "[::]")


def name_of(addresses: Sequence[str]) -> str:
    """Returns the first address as text that metadata takes: with the machine's name for a wildcard, or the path."""
    address = addresses[0]
    if not address.startswith(UNIX):
        host, _, port = address.rpartition(":")
        address = f"{socket.gethostname() if host in _ANY else host}:{port}"
    # Paths may hold anything.
    return address.removeprefix(UNIX).encode("unicode_escape").decode()
