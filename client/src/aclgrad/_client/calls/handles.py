"""Handles: outputs of a program's steps, and placeholders, before there are values."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from typing import Any, NoReturn

import numpy as np

from aclgrad._client.calls.arrays import as_array
from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.strided import Strided
from aclgrad.errors import InvalidFieldError, ServerFaultError
from aclgrad.tensors import TensorType, View, laid_over


class Handle:
    """An output of a step of a program, a placeholder, or a view of either: it has a shape and a dtype, and no values.

    Operators of the same program take it in place of an array, and `run` returns its values. Indexing, `T`,
    `transpose`, `reshape` and `broadcast_to` make views, which copy nothing and are read by the server as they are.
    """

    __slots__ = ("_program", "_strided", "_whole", "output", "placeholder", "step")
    __array_ufunc__ = None

    def __init__(
        self,
        program: object,
        step: int,
        output: str,
        whole: TensorType,
        strided: Strided | None = None,
        placeholder: Placeholder | None = None,
    ) -> None:
        self._program = program
        self._whole = whole
        self._strided = strided
        self.step = step
        """The position of the step in its program; -1 for a placeholder."""
        self.output = output
        """The name of the output; empty for a placeholder."""
        self.placeholder = placeholder
        """The placeholder that it stands for; None for an output."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self._whole.shape if self._strided is None else self._strided.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._whole.dtype.numpy

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.type.element_count

    @property
    def type(self) -> TensorType:
        """Its type on the wire."""
        return self._whole if self._strided is None else TensorType(self._whole.dtype, self._strided.shape)

    @property
    def view(self) -> View | None:
        """How it lies over the output or the placeholder; None for all of it."""
        return None if self._strided is None else View(self._strided.offset, self._strided.strides)

    def is_of(self, program: object) -> bool:
        """Whether it belongs to this program."""
        return self._program is program

    @property
    def T(self) -> Handle:  # noqa: N802 - numpy's name
        """The view whose axes are reversed."""
        return self.transpose()

    def transpose(self, *axes: Any) -> Handle:
        """Returns the view with its axes in this order, reversed if there is none."""
        return self._of(self._own().transpose(_unpacked(axes) or range(self.ndim - 1, -1, -1)))

    def reshape(self, *shape: Any) -> Handle:
        """Returns the view of this shape; raises InvalidFieldError if elements would have to be copied for it."""
        return self._of(self._own().reshape(_unpacked(shape)))

    def broadcast_to(self, *shape: Any) -> Handle:
        """Returns the view of this shape, in which axes of one element repeat it."""
        return self._of(self._own().broadcast_to(_unpacked(shape)))

    def __getitem__(self, items: Any) -> Handle:
        return self._of(self._own()[items])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a handle without axes has no length")
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        problem = f"is {self!r}, which has no values yet"
        raise InvalidFieldError.at("array", problem, "give it to its program's run(), or to a step of that program")

    def __repr__(self) -> str:
        view = "" if self._strided is None else "a view of "
        whole = self.placeholder or f"{self.output} of step {self.step}"
        return f"<{view}{whole}: {self.type}>"

    def taken_from(self, output: Any) -> Any:
        """Returns the values of the handle, given those of its output.

        Raises ServerFaultError if they have another type than the operator's.
        """
        # The caller's `out` may be a tensor of another library.
        array = as_array("out", output)
        if (array.shape, array.dtype) != (self._whole.shape, self.dtype):
            found = f"{array.dtype}{list(array.shape)}"
            raise ServerFaultError(f"the server sent {found} as {self.output} of step {self.step}: {self._whole}")
        return output if self.view is None else laid_over(np.ravel(array), self.view, self.shape).copy()

    def _own(self) -> Strided:
        return Strided.whole(self.shape) if self._strided is None else self._strided

    def _of(self, strided: Strided) -> Handle:
        return Handle(self._program, self.step, self.output, self._whole, strided, self.placeholder)


def _unpacked(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the only argument if it is a sequence, else all: numpy takes both."""
    if len(arguments) == 1 and isinstance(arguments[0], tuple | list):
        return tuple(arguments[0])
    return arguments
