"""Adds the steps of rows to a program; helpers of several rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import numpy as np
import torch

from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.strided import Strided
from aclgrad._client.programs.program import BaseProgram
from aclgrad.composites.operands import narrow
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.binary import spec as binary
from aclgrad.operators.families.scalar import spec as scalar
from aclgrad.operators.families.unary import spec as unary
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.torch.calls import Array, LocalError

Value = Any
"""Stands for a tensor: the handle of an output or of a view, or an array that needs no step."""
Number = bool | int | float
Row = Callable[..., Any]
"""Takes the steps and an operator's arguments, and returns the handles of its results."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A program under construction, and its product, if known."""

    program: BaseProgram[Any]
    product: Product | None = None

    def __call__(self, operator: str, inputs: Mapping[str, Any], **attributes: Any) -> Any:
        """Adds a step, and returns the handle of its output, or a tuple of several; omits attributes that are None."""
        return self._add(operator, inputs, attributes)

    def masked(
        self, operator: str, inputs: Mapping[str, Any], mask: Sequence[bool], **attributes: Any
    ) -> tuple[Value | None, ...]:
        """Adds a step, and returns the outputs selected by the mask, and None for the others."""
        names = [each.name for each in OPERATORS[operator].outputs]
        wanted = [name for name, is_wanted in zip(names, mask, strict=True) if is_wanted]
        return tuple(self._add(operator, inputs, attributes, wanted)) if wanted else (None,) * len(names)

    def _add(
        self,
        operator: str,
        inputs: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
    ) -> Any:
        plain = {name: tuple(each) if isinstance(each, list) else each for name, each in attributes.items()}
        given = {name: each for name, each in plain.items() if each is not None}
        if operator not in _BROADCASTING:
            return self.program.execute(operator, inputs, given, outputs=outputs)
        made = self.program.execute(operator, {name: _narrow(each) for name, each in inputs.items()}, given)
        shape = np.broadcast_shapes(*(each.shape for each in inputs.values()))
        return made if made.shape == shape else made.broadcast_to(shape)


_BROADCASTING: Final = frozenset(each.name for family in (binary, scalar, unary) for each in family.SPECS)
"""Element-wise operators, which compute a broadcast axis once."""


def _narrow(self: Value) -> Value:
    return narrow(self) if isinstance(self, Handle) else self


def of_one(operator: str, input: str = "self") -> Row:
    """Returns the row of a function of one tensor, the operator's input of this name."""
    return lambda steps, self: steps(operator, {input: self})


def of_two(operator: str, of_number: str = "") -> Row:
    """Returns the row of a function whose second argument may be a number if there is an operator for that."""

    def add(steps: Steps, self: Value, other: Value) -> Value:
        if of_number and isinstance(other, Number):
            return steps(of_number, {"self": self}, other=other)
        return steps(operator, {"self": self, "other": other})

    return add


def scalar_like(self: Value, number: Number) -> Array:
    """Returns a number as a scalar of the tensor's type."""
    return np.asarray(number, self.dtype)


def type_like(self: Value, dtype: torch.dtype | np.dtype[Any] | None = None) -> TensorType:
    """Returns the type of a tensor, or that of its shape with another data type."""
    name = str(dtype or self.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise LocalError(f"no operator has the data type {name}")
    return TensorType(DTYPES[name], tuple(self.shape))


def cast(steps: Steps, self: Value, dtype: torch.dtype | np.dtype[Any]) -> Value:
    """Returns the tensor in another data type."""
    small = _narrow(self)
    type = type_like(small, dtype)
    if self.dtype == type.dtype.numpy:
        return self
    made = steps("inplace_copy", {"self": type, "src": small})
    return made if small is self else spread(made, self.shape)


def cast_if_any(steps: Steps, self: Value | None, dtype: torch.dtype | np.dtype[Any]) -> Value | None:
    """Returns the tensor in another data type; None for no tensor."""
    return None if self is None else cast(steps, self, dtype)


def filled(steps: Steps, type: TensorType, value: Number) -> Value:
    """Returns a tensor with one number."""
    if math.isfinite(value):
        return steps("inplace_fill_scalar", {"self": type}, value=value)
    return steps("inplace_copy", {"self": type, "src": np.asarray(value, type.dtype.numpy)})


def written(steps: Steps, self: Value, src: Value, part: tuple[Any, ...]) -> Value:
    """Copies the source into the part of the tensor that has this index."""
    view = Strided.whole(tuple(self.shape))[part]
    where = {"shape": view.shape, "offset": view.offset, "strides": view.strides}
    return steps("inplace_copy", {"self": self, "src": src}, **where)


def at(dim: int, rank: int, item: Any) -> tuple[Any, ...]:
    """Returns the index with this item along one axis."""
    return (*(slice(None),) * (dim % rank), item)


def in_float32(row: Row) -> Row:
    """Returns the row in float32: narrower types are converted before and after it, as within PyTorch's kernels."""

    @wraps(row)
    def add(steps: Steps, self: Value, *args: Any, **kwargs: Any) -> Value:
        made = row(steps, cast(steps, self, torch.float32), *args, **kwargs)
        return made if is_exact(self) else cast(steps, made, self.dtype)

    return add


def is_exact(self: Value) -> bool:
    """Whether a tensor has integers or truth values."""
    return self.dtype.kind in "iub"


def above(steps: Steps, rows: int, columns: int, diagonal: int = 0) -> Value:
    """Returns the mask of a matrix above a diagonal, computed from positions: the truth values would be many bytes."""
    one, other = np.arange(columns, dtype=np.int32), np.arange(rows, dtype=np.int32)[:, None] + np.int32(diagonal)
    return steps("gt_tensor", {"self": one, "other": other})


def spread(self: Value, shape: Sequence[int]) -> Value:
    """Returns the view broadcast to this shape."""
    whole = tuple(shape)
    return np.broadcast_to(self, whole) if isinstance(self, np.ndarray) else self.broadcast_to(whole)


def reshaped(steps: Steps, self: Value, shape: Sequence[int]) -> Value:
    """Returns the tensor in another shape, and copies it first if no view has that shape."""
    try:
        return self.reshape(tuple(shape))
    except InvalidFieldError:
        return laid_out(steps, self).reshape(tuple(shape))


def laid_out(steps: Steps, self: Handle) -> Handle:
    """Returns a copy in the order of the axes."""
    made: Handle = steps("inplace_copy", {"self": type_like(self), "src": self})
    return made


def along(self: Value, dim: int, item: Any) -> Value:
    """Returns the view with this item of the index along one axis."""
    return self[at(dim, self.ndim, item)]
