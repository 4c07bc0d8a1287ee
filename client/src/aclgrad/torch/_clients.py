"""Clients as numbers, because an operator of PyTorch takes no Python objects."""

from itertools import count
from typing import Final
from weakref import WeakValueDictionary

import torch

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidSettingError

_CLIENTS: Final[WeakValueDictionary[int, Client]] = WeakValueDictionary()
_UNUSED: Final = count(1)
# An attribute of the client, because torch.compile can read that within a graph.
_ATTRIBUTE: Final = "_torch_number"


def number_of(client: Client) -> int:
    """Returns the number that stands for the client in a graph; the graph does not keep the client alive."""
    if not isinstance(client, Client):
        problem, remedy = f"client is a {type(client).__name__}", "give an aclgrad.Client"
        raise InvalidSettingError(problem, field="client", remedy=remedy)
    number: int = getattr(client, _ATTRIBUTE, 0) or _register(client)
    return number


@torch.compiler.disable
def _register(client: Client) -> int:
    number = next(_UNUSED)
    _CLIENTS[number] = client
    # The first of several threads wins; both numbers stand for the client.
    first: int = vars(client).setdefault(_ATTRIBUTE, number)
    return first


def client_of(number: int) -> Client:
    """Returns the client with this number; raises InvalidSettingError if it no longer exists."""
    client = _CLIENTS.get(number)
    if client is None:
        remedy = "keep the client until backward() has returned"
        raise InvalidSettingError("the client of this graph no longer exists", field="client", remedy=remedy)
    return client
