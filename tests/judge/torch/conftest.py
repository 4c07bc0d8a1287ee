"""What the tests of the bridge have: one client, and random numbers that are alike in any order."""

from tests.torch.conftest import _alike_in_any_order, _client, _one_thread, client

__all__ = ["_alike_in_any_order", "_client", "_one_thread", "client"]
