"""Operands of composites: arrays, or handles of the same program."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aclgrad._client.calls.arrays import TensorLike, as_array
from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.program import BaseProgram
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS

Array = np.ndarray[Any, Any]
Operand = Array | Handle
OperandLike = TensorLike | Handle
Program = BaseProgram[Any]
Shape = tuple[int, ...]

_MOST_AXES: Final = max(OPERATORS["reduce_sum"].leading_input.ranks) - 1


def operand(name: str, value: OperandLike, *, least: int = 0) -> Operand:
    """Returns the value as an array, or the handle; raises InvalidFieldError if it has fewer axes than `least`."""
    found = value if isinstance(value, Handle) else as_array(name, value)
    if found.ndim < least:
        raise InvalidFieldError.at(name, f"has {found.ndim} axes", f"give at least {least}")
    return found


def check_shape(name: str, have: Shape, want: Shape) -> None:
    """Raises InvalidFieldError unless the gradient is shaped as the result."""
    if have != want:
        raise InvalidFieldError.at(name, f"is {have}", f"give {want}, the shape of the result")


def check_wanted(wanted: Sequence[bool] | None, count: int) -> None:
    """Raises InvalidFieldError unless there is a flag for each gradient; None is for all."""
    if wanted is not None and len(wanted) != count:
        raise InvalidFieldError.at("wanted", f"has {len(wanted)} values", f"give {count}, one for each gradient")


def transposed(value: Operand) -> Operand:
    """Returns the view whose last two axes are exchanged."""
    return value.transpose(*range(value.ndim - 2), value.ndim - 1, value.ndim - 2)


def with_axis(value: Operand, axis: int) -> Operand:
    """Returns the view with another axis of size 1, counted from the last of the result."""
    return value[(..., None, *(slice(None) for _ in range(-1 - axis)))]


def reshaped(program: Program, value: Operand, shape: Sequence[int]) -> Operand:
    """Returns the operand in this shape: a view if possible, else a copy that the server makes."""
    sizes = tuple(shape)
    if value.shape == sizes:
        return value
    if isinstance(value, Handle):
        try:
            return value.reshape(sizes)
        except InvalidFieldError:
            return copied(program, value).reshape(sizes)
    found = value.reshape(sizes)
    if not found.size or np.may_share_memory(found, value):
        return found
    return copied(program, value).reshape(sizes)


def copied(program: Program, value: Operand) -> Handle:
    """Adds the step that copies the operand into row-major order: a sum over an axis of one element.

    Raises InvalidFieldError for more axes than a sum takes besides.
    """
    own = value[tuple(0 if size == 1 else slice(None) for size in value.shape)]
    if own.ndim > _MOST_AXES:
        problem = f"has {own.ndim} axes of several elements in an order that the server would have to change"
        raise InvalidFieldError.at("operand", problem, f"give at most {_MOST_AXES}, or reshape before")
    return program.reduce_sum(own[None], (0,)).reshape(value.shape)


def narrow(value: Handle) -> Handle:
    """Returns the view with one element along each broadcast axis."""
    if value.view is None:
        return value
    strides = value.view.strides_of(value.shape)
    return value[tuple(slice(1) if stride == 0 else slice(None) for stride in strides)] if 0 in strides else value


def broadcast(value: Operand, shape: Sequence[int]) -> Operand:
    """Returns the broadcast view."""
    return value.broadcast_to(*shape) if isinstance(value, Handle) else np.broadcast_to(value, tuple(shape))


def summed_to(program: Program, value: Operand, shape: Shape) -> Handle:
    """Adds the step that sums a broadcast tensor to this shape, and returns the sum."""
    added = value.ndim - len(shape)
    axes = [axis for axis, size in enumerate(value.shape) if axis < added or (shape[axis - added] == 1 and size != 1)]
    if not axes:
        return value if isinstance(value, Handle) else copied(program, value)
    return program.reduce_sum(value, axes).reshape(shape)


def scaled(program: Program, value: Operand, factor: float) -> Handle:
    """Adds the step that multiplies by a factor: the sum of the scaled addend and an empty product."""
    if factor == 1:
        return value if isinstance(value, Handle) else copied(program, value)
    rows, columns = math.prod(value.shape[:-1]), value.shape[-1] if value.ndim else 1
    nothing = np.zeros((rows, 0), value.dtype), np.zeros((0, columns), value.dtype)
    addend = reshaped(program, value, (rows, columns))
    return program.addmm(addend, *nothing, beta=factor).reshape(value.shape)
