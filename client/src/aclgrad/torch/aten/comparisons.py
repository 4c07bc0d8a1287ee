"""Comparisons, truth values, and choices between elements by them."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from aclgrad.operators.promotion import with_number
from aclgrad.torch.aten.steps import Number, Row, Steps, Value, cast, of_two, scalar_like, type_like
from aclgrad.torch.calls import Array, LocalError

aten: Final = torch.ops.aten
_NO, _YES = np.asarray(False), np.asarray(True)


def masked(steps: Steps, self: Value, mask: Value, value: Value) -> Value:
    """Returns the tensor with a value, a number or a tensor, where the mask is true."""
    other = scalar_like(self, value) if isinstance(value, Number) else value
    return steps("s_where", {"condition": mask, "self": other, "other": self})


def _where(steps: Steps, condition: Value, self: Value, other: Value) -> Value:
    """A number with a tensor only matters if it is of a higher category; two numbers have their own types."""
    one, two = (
        _beside(number, tensor) if isinstance(number, Number) else number
        for number, tensor in ((self, other), (other, self))
    )
    return steps("s_where", {"condition": condition, "self": one, "other": two})


def _beside(number: Number, tensor: Value) -> Array:
    if isinstance(tensor, Number):
        return np.asarray(number, np.float32 if isinstance(number, float) else None)
    return np.asarray(number, with_number(type_like(tensor).dtype, number).numpy)


def compared(operator: str) -> Row:
    """Returns the row of a comparison with a number; PyTorch rounds it to the tensor's type."""

    def add(steps: Steps, self: Value, other: Number) -> Value:
        number = cast(steps, self, torch.int32) if self.dtype == np.bool_ else self
        is_rounded = isinstance(other, float) and number.dtype.kind not in "iub"
        return steps(operator, {"self": number}, other=float(scalar_like(self, other)) if is_rounded else other)

    return add


_equal, _greater = of_two("eq_tensor"), of_two("gt_tensor")


def _not(steps: Steps, self: Value) -> Value:
    return steps("eq_tensor", {"self": self, "other": np.zeros((), self.dtype)})


def _bits(row: Row) -> Row:
    """Returns the row of a bitwise operation, only for truth values."""

    def add(steps: Steps, *given: Value) -> Value:
        if any(each.dtype != np.bool_ for each in given):
            raise LocalError("no operator computes with the bits of integers")
        return row(steps, *given)

    return add


def _truth(steps: Steps, self: Value) -> Value:
    return self if self.dtype == np.bool_ else _not(steps, _not(steps, self))


def _and(steps: Steps, self: Value, other: Value) -> Value:
    return steps("s_where", {"condition": _truth(steps, self), "self": _truth(steps, other), "other": _NO})


def _or(steps: Steps, self: Value, other: Value) -> Value:
    return steps("s_where", {"condition": _truth(steps, self), "self": _YES, "other": _truth(steps, other)})


def _xor(steps: Steps, self: Value, other: Value) -> Value:
    return _not(steps, _equal(steps, _truth(steps, self), _truth(steps, other)))


def _at_least(steps: Steps, self: Value, other: Value) -> Value:
    return _or(steps, _greater(steps, self, other), _equal(steps, self, other))


def product(steps: Steps, self: Value, other: Value) -> Value:
    """Adds the steps of a product, whose factors may be truth values."""
    if self.dtype != np.bool_:
        factor = {"self": self}
        return (
            steps("muls", factor, other=other) if isinstance(other, Number) else steps("mul", factor | {"other": other})
        )
    if isinstance(other, bool):
        return _and(steps, self, np.asarray(other))
    if isinstance(other, Number):
        return steps("muls", {"self": cast(steps, self, with_number(type_like(self).dtype, other).numpy)}, other=other)
    return _and(steps, self, other) if other.dtype == np.bool_ else steps("mul", {"self": other, "other": self})


ROWS: Final[Mapping[Any, Row]] = {
    aten.eq.Tensor: _equal,
    aten.ne.Tensor: lambda steps, self, other: _not(steps, _equal(steps, self, other)),
    aten.gt.Tensor: _greater,
    aten.lt.Tensor: lambda steps, self, other: _greater(steps, other, self),
    aten.ge.Tensor: _at_least,
    aten.le.Tensor: lambda steps, self, other: _at_least(steps, other, self),
    **{getattr(aten, name).Scalar: compared(f"{name}_scalar") for name in ("eq", "ge", "gt", "le", "lt")},
    aten.ne.Scalar: lambda steps, self, other: _not(steps, compared("eq_scalar")(steps, self, other)),
    aten.logical_not.default: _not,
    aten.logical_and.default: _and,
    aten.logical_or.default: _or,
    aten.logical_xor.default: _xor,
    aten.bitwise_not.default: _bits(_not),
    aten.bitwise_and.Tensor: _bits(_and),
    aten.bitwise_or.Tensor: _bits(_or),
    aten.bitwise_xor.Tensor: _bits(_xor),
    aten.isnan.default: lambda steps, self: _not(steps, _equal(steps, self, self)),
    **dict.fromkeys((aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar), _where),
    **dict.fromkeys((aten.masked_fill.Scalar, aten.masked_fill.Tensor), masked),
}
