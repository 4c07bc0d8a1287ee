"""Tensors as arrays and back, without copies on the CPU."""

from typing import Any, Final

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from aclgrad.tensors import DTYPES, TensorType

Array = np.ndarray[Any, Any]
_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)


def type_of(tensor: Tensor) -> TensorType:
    """Returns the tensor's type in the operator table's terms."""
    return TensorType(DTYPES[dtype_name(tensor)], tuple(tensor.shape))


def dtype_name(tensor: Tensor) -> str:
    """Returns the dtype's name, which PyTorch, numpy and the wire share."""
    return str(tensor.dtype).removeprefix("torch.")


def array_of(tensor: Tensor) -> Array:
    """Returns a view of the tensor; copies one that is on a device or lazily conjugated."""
    # numpy has bfloat16 only from ml_dtypes, which PyTorch does not know.
    is_bfloat16 = tensor.dtype == torch.bfloat16
    array: Array = (tensor.view(torch.int16) if is_bfloat16 else tensor).numpy(force=True)
    return array.view(_BFLOAT16) if is_bfloat16 else array


def tensor_of(array: Array) -> Tensor:
    """Returns a view of a writable array."""
    if array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
