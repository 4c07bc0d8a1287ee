"""Reads callers' tensors as numpy arrays, in the same memory if possible, without importing a framework."""

import sys
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from aclgrad.errors import InvalidFieldError
from aclgrad.tensors import DTYPES

Array = np.ndarray[Any, Any]


class SupportsDlpack(Protocol):
    """A tensor of another library that shares its memory by DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


TensorLike = ArrayLike | SupportsDlpack
"""Anything that numpy can read, and CPU tensors of other libraries."""

_OTHER_PROTOCOLS: Final = ("__array__", "__array_interface__", "__array_struct__", "__buffer__")
_BFLOAT16: Final = DTYPES["bfloat16"].numpy
_ON_CPU: Final = ("cpu", "None")


def as_array(field: str, value: Any) -> Array:
    """Returns the value as an array, a copy only if numpy cannot read its memory.

    Raises InvalidFieldError, with the call that helps, for a tensor on another device, one that records gradients,
    masked values, and anything else that is not an array.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        problem = f"has {np.count_nonzero(value.mask)} masked values, and a mask cannot be sent"
        raise InvalidFieldError.at(field, problem, "give array.filled(value)")
    try:
        if str(getattr(value, "dtype", None)) == "torch.bfloat16":
            if value.requires_grad:
                raise TypeError("a view of integers would not")
            # numpy has this type only through ml_dtypes, which PyTorch does not know.
            return np.asarray(value.view(sys.modules["torch"].int16)).view(_BFLOAT16)
        if hasattr(value, "__dlpack__") and not any(hasattr(value, name) for name in _OTHER_PROTOCOLS):
            return np.from_dlpack(value)
        array = np.asarray(value)
    except InvalidFieldError as error:
        # A handle of a program has its own error.
        raise InvalidFieldError.at(field, error.violations[0].problem, error.violations[0].remedy) from None
    except Exception as error:  # of the object's own conversion
        problem, remedy = _explained(value) or (f"is no array: {str(error).rstrip('.')}", "give an array or a shape")
        raise InvalidFieldError.at(field, problem, remedy) from error
    if array.dtype == object:
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise InvalidFieldError.at(field, f"is {kind}, which numpy reads as no numbers", "give an array or a shape")
    return array


def _explained(value: Any) -> tuple[str, str] | None:
    """Returns why a tensor cannot be read, and the remedy; None if unknown."""
    problems, remedy = [], "give tensor"
    if getattr(value, "requires_grad", False) is True:
        problems.append("records gradients (requires_grad)")
        remedy += ".detach()"
    device = str(getattr(value, "device", None))
    if device not in _ON_CPU:
        problems.append(f"is on the device {device}")
        remedy += ".cpu()"
    return (" and ".join(problems), remedy) if problems else None
