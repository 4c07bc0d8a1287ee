"""Destinations of outputs: new arrays, or the caller's `out`."""

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, cast

import numpy as np

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.arrays import Array, SupportsDlpack, as_array
from aclgrad.errors import InvalidFieldError
from aclgrad.outputs import OUTPUTS
from aclgrad.tensors import TensorType, TensorView, array_of_view

Output = Array | SupportsDlpack | memoryview
"""A destination of an output: a writable array, or a CPU tensor of another library."""
Outputs = Output | tuple[Output | None, ...]
"""Destinations of all outputs of a call; None for an unwanted output, or a new array."""


class OutputBuffer:
    """The memory of one output: a new array, or the caller's `out`, which a failed call may leave half-written."""

    def __init__(self, out: Output | None = None, field: str = "out") -> None:
        """Raises InvalidFieldError, which names the field, if `out` cannot be written to."""
        self._out = out
        self.field = field
        self.array = None if out is None else _memory_of(field, out)

    def check(self, type: TensorType) -> None:
        """Raises InvalidFieldError if `out` does not have this dtype and shape."""
        array = self.array
        if array is not None and (array.shape != type.shape or array.dtype != type.dtype.numpy):
            problem = f"is {array.dtype}[{', '.join(map(str, array.shape))}], and the output is {type}"
            raise InvalidFieldError.at(self.field, problem, "give an array of that dtype and shape")

    def check_apart(self, name: str, input: Array | memoryview) -> None:
        """Raises InvalidFieldError if `out` overlaps an input: a retry would send changed values."""
        if self.array is not None and np.may_share_memory(self.array, np.asarray(input)):
            raise InvalidFieldError.at(self.field, f"shares memory with inputs[{name}]", "give another array")

    def check_apart_from(self, other: "OutputBuffer") -> None:
        """Raises InvalidFieldError if one output would overwrite the other."""
        if self.array is not None and other.array is not None and np.may_share_memory(self.array, other.array):
            raise InvalidFieldError.at(other.field, f"shares memory with {self.field}", "give another array")

    def read(self, tensor: TensorView) -> Array:
        """Returns the output of a reply; raises ValueError as `array_of_view` does."""
        return self._result(array_of_view(tensor, self.array))

    def array_for(self, type: TensorType) -> Array:
        """Returns an array for the bytes of an output that arrives in pieces; pass it to `take` afterwards."""
        if self.array is not None and self.array.flags.c_contiguous:
            return self.array
        return np.empty(type.shape, type.dtype.numpy)

    def copies(self, array: Array) -> bool:
        """Whether `take` copies this array."""
        return self.array is not None and array is not self.array

    def take(self, array: Array) -> Array:
        """Returns the output in its destination; copies it unless it is there."""
        if self.array is not None and self.copies(array):
            self.array[...] = array
        return self._result(array)

    def _result(self, array: Array) -> Array:
        """Returns the caller's own object, if there is one."""
        return array if self._out is None else cast(Array, self._out)


_NEW: Final = OutputBuffer()


@lru_cache
def outputs_type(operator: str, names: tuple[str, ...]) -> Callable[..., tuple[Array | None, ...]]:
    """Returns the type of several outputs: a NamedTuple with the names of the outputs."""
    # The server may have operators that this client does not know.
    return OUTPUTS.get(operator) or namedtuple("Outputs", names, rename=True)


class Destination:
    """The destination of the outputs of one call: one array, or a NamedTuple of several."""

    def __init__(
        self, out: Any = None, names: Sequence[str] = (), wanted: Sequence[str] = (), operator: str = ""
    ) -> None:
        """Takes the names of all outputs of the operator, none if it is unknown, and of the wanted ones.

        Raises InvalidFieldError if `out`, or a part of it, cannot be written to.
        """
        self._operator = operator
        self._names = tuple(names)
        self._wanted = tuple(each for each in names if not wanted or each in wanted)
        self.is_given = out is not None
        """Whether the caller has arrays for the outputs."""
        if len(self._names) < 2:
            self._buffers: tuple[OutputBuffer, ...] = () if out is None and not names else (OutputBuffer(out),)
            return
        if out is not None and (not isinstance(out, tuple | list) or len(out) != len(names)):
            problem = f"is not a tuple of {len(names)}"
            raise InvalidFieldError.at("out", problem, f"give one for each of {', '.join(names)}")
        each_out = dict(zip(names, out or (None,) * len(names), strict=True))
        for name, given in each_out.items():
            if given is not None and name not in self._wanted:
                raise InvalidFieldError.at(f"out[{name}]", "is for an output that is not wanted", "give None there")
        self._buffers = tuple(OutputBuffer(each_out[name], f"out[{name}]") for name in self._wanted)
        for first, second in combinations(self._buffers, 2):
            first.check_apart_from(second)

    def read(self, outputs: Sequence[TensorView], take_over: Callable[[TensorView], Array] | None = None) -> Array:
        """Returns the outputs of a reply; `take_over` returns those in shared memory.

        Raises ServerFaultError if one is missing, InvalidFieldError if one does not fit `out`.
        """
        try:
            buffers = self.buffers(outputs)
        except ValueError as error:
            raise unreadable_reply(error) from error
        self.check(outputs)
        try:
            arrays = [
                buffer.read(each) if take_over is None or each.source.shared is None else buffer.take(take_over(each))
                for buffer, each in zip(buffers, outputs, strict=True)
            ]
        except ValueError as error:
            raise unreadable_reply(error) from error
        return cast(Array, self.result(outputs, arrays))

    def buffers(self, outputs: Sequence[TensorView]) -> tuple[OutputBuffer, ...]:
        """Returns the memory of each output; raises ValueError if they are not the call's."""
        count = len(self._buffers) or max(len(outputs), 1)
        if len(outputs) != count:
            raise ValueError(f"it has {len(outputs)} outputs instead of {count}")
        found = tuple(each.name for each in outputs)
        if len(self._names) > 1 and found != self._wanted:
            raise ValueError(f"it has the outputs {', '.join(found)} instead of {', '.join(self._wanted)}")
        return self._buffers or (_NEW,) * count

    def check(self, outputs: Sequence[TensorView]) -> None:
        """Raises InvalidFieldError if `out` does not have the dtypes and shapes of these outputs."""
        for buffer, output in zip(self.buffers(outputs), outputs, strict=True):
            buffer.check(output.type)

    def check_apart(self, inputs: Iterable[tuple[str, Array | memoryview]]) -> None:
        """Raises InvalidFieldError if `out` overlaps an input: a retry would send changed values."""
        for name, input in inputs if self.is_given else ():
            for buffer in self._buffers:
                buffer.check_apart(name, input)

    def given(self) -> list[tuple[str, Array]]:
        """Returns the caller's arrays, each with the field that names it."""
        return [(each.field, each.array) for each in self._buffers if each.array is not None]

    def result(self, outputs: Sequence[TensorView], arrays: Sequence[Array]) -> Any:
        """Returns the only array, or several by the names of their outputs, None for an unwanted one."""
        if len(arrays) == 1 and len(self._names) < 2:
            return arrays[0]
        if not self._names:
            return outputs_type(self._operator, tuple(each.name for each in outputs))(*arrays)
        found = dict(zip(self._wanted, arrays, strict=True))
        return outputs_type(self._operator, self._names)(*map(found.get, self._names))


class _Nothing(Destination):
    def buffers(self, outputs: Sequence[TensorView]) -> tuple[OutputBuffer, ...]:
        if outputs:
            raise ValueError(f"it has {len(outputs)} outputs of a step that was to send none back")
        return ()

    def result(self, outputs: Sequence[TensorView], arrays: Sequence[Array]) -> Any:
        return None


NEW: Final = Destination()
"""A new array for each output of an operator that the client does not know, however many there are."""
ONE: Final = Destination(names=("the only one",))
"""A new array for the output."""
NOTHING: Final = _Nothing()
"""For a step whose outputs only later steps use."""


@lru_cache(4096)
def new_arrays(operator: str, names: tuple[str, ...], wanted: tuple[str, ...] = ()) -> Destination:
    """Returns a destination of new arrays for the wanted outputs of an operator with these outputs."""
    return ONE if len(names) == 1 else Destination(None, names, wanted, operator) if names else NEW


def _memory_of(field: str, out: Any) -> Array:
    array = as_array(field, out)
    # Only conversions that share the memory of `out` share it with each other.
    if array is not out and array.size and not np.may_share_memory(array, as_array(field, out)):
        problem = f"is a {type(out).__name__}, whose memory numpy cannot write to"
        raise InvalidFieldError.at(field, problem, "give an array")
    if not array.flags.writeable:
        raise InvalidFieldError.at(field, "is read-only", "give an array that can be written to")
    return array
