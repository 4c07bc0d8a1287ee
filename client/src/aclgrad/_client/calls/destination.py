"""Where a gradient goes: into a new array, or into the caller's `out`."""

from collections.abc import Iterable
from typing import Any, Final, cast

import numpy as np

from aclgrad._client.calls.arrays import Array, SupportsDlpack, as_array
from aclgrad.errors import InvalidFieldError
from aclgrad.tensors import TensorType, TensorView, array_of_view

Output = Array | SupportsDlpack | memoryview
"""What a gradient can be written to: a writable array, or a CPU tensor of another library."""


class Destination:
    """Takes one gradient, by whichever way it comes. A call that fails may leave a part of it in `out`."""

    def __init__(self, out: Output | None = None) -> None:
        """Raises InvalidFieldError if nothing can be written to `out`."""
        self._out = out
        self._array = None if out is None else _memory_of(out)

    def check(self, type: TensorType) -> None:
        """Raises InvalidFieldError if `out` does not have this dtype and shape."""
        array = self._array
        if array is not None and (array.shape != type.shape or array.dtype != type.dtype.numpy):
            problem = f"is {array.dtype}[{', '.join(map(str, array.shape))}], and the gradient is {type}"
            raise InvalidFieldError.at("out", problem, "give an array of that dtype and shape")

    def check_apart(self, inputs: Iterable[TensorView]) -> None:
        """Raises InvalidFieldError if `out` overlaps an input, which another attempt would then send changed."""
        for tensor in inputs if self._array is not None else ():
            if isinstance(tensor.data, memoryview) and np.may_share_memory(self._array, np.asarray(tensor.data)):
                raise InvalidFieldError.at("out", f"shares memory with inputs[{tensor.name}]", "give another array")

    def read(self, tensor: TensorView) -> Array:
        """Returns the gradient of a reply; raises ValueError as `array_of_view` does."""
        return self._result(array_of_view(tensor, self._array))

    def buffer(self, type: TensorType) -> Array:
        """Returns an array for the bytes of a gradient that comes in pieces; `take` has to get it then."""
        if self._array is not None and self._array.flags.c_contiguous:
            return self._array
        return np.empty(type.shape, type.dtype.numpy)

    @property
    def is_given(self) -> bool:
        """Whether the caller has an array for the gradient."""
        return self._array is not None

    def copies(self, gradient: Array) -> bool:
        """Whether `take` copies this gradient to where it belongs."""
        return self._array is not None and gradient is not self._array

    def take(self, gradient: Array) -> Array:
        """Returns the gradient where it belongs; copies it unless it is there."""
        if self._array is not None and self.copies(gradient):
            self._array[...] = gradient
        return self._result(gradient)

    def _result(self, gradient: Array) -> Array:
        """Returns the caller's own object, if there is one."""
        return gradient if self._out is None else cast(Array, self._out)


NEW: Final = Destination()
"""A new array for each gradient."""


def _memory_of(out: Any) -> Array:
    array = as_array("out", out)
    # Only conversions that share the memory of `out` share it with each other.
    if array is not out and array.size and not np.may_share_memory(array, as_array("out", out)):
        problem = f"is a {type(out).__name__}, whose memory numpy cannot write to"
        raise InvalidFieldError.at("out", problem, "give an array")
    if not array.flags.writeable:
        raise InvalidFieldError.at("out", "is read-only", "give an array that can be written to")
    return array
