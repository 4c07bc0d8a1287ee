"""Tensors as arrays and back, without copies on the CPU, and clients as numbers, which operators can take."""

from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidSettingError
from aclgrad.tensors import DTYPES, TensorType

Array = np.ndarray[Any, Any]
_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
_CLIENTS: Final[WeakValueDictionary[int, Client]] = WeakValueDictionary()
_UNUSED: Final = count(1)
# An attribute of the client, which torch.compile can read within a graph.
_ATTRIBUTE: Final = "_torch_number"


def type_of(tensor: Tensor) -> TensorType:
    """Returns the tensor's type as in the operator table."""
    return TensorType(DTYPES[dtype_name(tensor)], tuple(tensor.shape))


def dtype_name(tensor: Tensor) -> str:
    """Returns the dtype's name, which PyTorch, numpy and the wire share."""
    return str(tensor.dtype).removeprefix("torch.")


def array_of(tensor: Tensor) -> Array:
    """Returns a view of the tensor, or a copy if it is on a device or lazily conjugated."""
    # numpy has bfloat16 only through ml_dtypes, which PyTorch does not know.
    is_bfloat16 = tensor.dtype == torch.bfloat16
    array: Array = (tensor.view(torch.int16) if is_bfloat16 else tensor).numpy(force=True)
    return array.view(_BFLOAT16) if is_bfloat16 else array


def tensor_of(array: Array) -> Tensor:
    """Returns a view of a writable array."""
    if array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


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
