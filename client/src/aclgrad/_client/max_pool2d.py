"""Which of two operators a server has, where one gradient has two."""

from typing import Final
from weakref import WeakKeyDictionary

from aclgrad._client.sync.client import Client

MAX_POOL2D: Final = ("max_pool2d_with_mask_backward", "max_pool2d_with_indices_backward")
"""Two operators for one gradient, with the same arguments. A product has one or both; the first takes more dtypes."""
_max_pool2d_of: Final[WeakKeyDictionary[Client, str]] = WeakKeyDictionary()


def served_operator(operator: str, client: Client) -> str:
    """Returns the operator, or of the two for max pooling one that the client's server lists."""
    if operator not in MAX_POOL2D:
        return operator
    if client not in _max_pool2d_of:
        listed = {each.name for each in client.list_operators()}
        _max_pool2d_of[client] = next((name for name in MAX_POOL2D if name in listed), operator)
    return _max_pool2d_of[client]
