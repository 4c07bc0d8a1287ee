"""Functions of single elements."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from aclgrad.operators.promotion import with_number
from aclgrad.torch.aten.comparisons import compared, masked, product
from aclgrad.torch.aten.steps import (
    Number,
    Row,
    Steps,
    Value,
    cast,
    in_float32,
    is_exact,
    of_one,
    of_two,
    scalar_like,
    type_like,
)
from aclgrad.torch.calls import LocalError

aten: Final = torch.ops.aten
_MIDDLE: Final = 0.5
_WITHOUT_ONE: Final = 2.0**25
"""Adding 1 to a larger float32 changes nothing."""


def _numbers(steps: Steps, self: Value, other: Value) -> tuple[Value, Value]:
    """Returns the operands, with truth values as numbers of the other one's type."""
    if isinstance(other, Number):
        dtype = with_number(type_like(self).dtype, other).numpy
        return (cast(steps, self, dtype) if self.dtype == np.bool_ else self), other
    if self.dtype == np.bool_ and other.dtype == np.bool_:
        raise LocalError("no operator adds up truth values, or divides them")
    one = cast(steps, self, other.dtype) if self.dtype == np.bool_ else self
    return one, cast(steps, other, self.dtype) if other.dtype == np.bool_ else other


def _sum(sign: int) -> Row:
    def add(steps: Steps, self: Value, other: Value, alpha: Number = 1) -> Value:
        self, other = _numbers(steps, self, other)
        if isinstance(other, Number):
            return steps("adds", {"self": self}, other=other, alpha=sign * alpha)
        return steps("add" if sign > 0 else "sub", {"self": self, "other": other}, alpha=alpha)

    return add


def _quotient(steps: Steps, self: Value, other: Value) -> Value:
    self, other = _numbers(steps, self, other)
    if isinstance(other, Number):
        return steps("divs", {"self": self}, other=other)
    return steps("div", {"self": self, "other": other})


def _power(steps: Steps, self: Value, exponent: Number) -> Value:
    """A power of 1 occurs in the gradient of a square."""
    if exponent == 1 and not is_exact(self):
        return self
    return steps("pow_tensor_scalar", {"self": self}, exponent=exponent)


def _between(steps: Steps, self: Value, end: Value, weight: Number) -> Value:
    """Begins at the nearer end, like PyTorch."""
    target = cast(steps, end, torch.float32)
    way = steps("sub", {"self": target, "other": self})
    if abs(weight) < _MIDDLE:
        return steps("add", {"self": self, "other": way}, alpha=float(weight))
    return steps("sub", {"self": target, "other": way}, alpha=float(1 - weight))


def _between_by_weights(steps: Steps, self: Value, end: Value, weight: Value) -> Value:
    target, share = (cast(steps, each, torch.float32) for each in (end, weight))
    way = steps("sub", {"self": target, "other": self})
    rest = steps("adds", {"self": steps("neg", {"self": share})}, other=1.0)
    near = steps("add", {"self": self, "other": steps("mul", {"self": way, "other": share})})
    far = steps("sub", {"self": target, "other": steps("mul", {"self": way, "other": rest})})
    is_near = steps("lt_scalar", {"self": steps("abs", {"self": share})}, other=_MIDDLE)
    return steps("s_where", {"condition": is_near, "self": near, "other": far})


def log_of_more(steps: Steps, self: Value) -> Value:
    """Returns log(1 + self) to full precision: log(u) * self / (u - 1), where u is the rounded sum."""
    total = steps("adds", {"self": self}, other=1.0)
    added = steps("adds", {"self": total}, other=-1.0)
    logarithm = steps("log", {"self": total})
    correction = steps("div", {"self": self, "other": added})
    corrected = steps("mul", {"self": logarithm, "other": correction})
    is_lost = steps("eq_scalar", {"self": added}, other=0.0)
    small = steps("s_where", {"condition": is_lost, "self": self, "other": corrected})
    is_large = steps("gt_scalar", {"self": self}, other=_WITHOUT_ONE)
    return steps("s_where", {"condition": is_large, "self": logarithm, "other": small})


def exponential_of_less(steps: Steps, self: Value) -> Value:
    """Returns exp(self) - 1 to full precision for numbers up to about 1: 2 * t / (1 - t), where t = tanh(self / 2)."""
    half = steps("tanh", {"self": steps("muls", {"self": self}, other=0.5)})
    rest = steps("adds", {"self": steps("neg", {"self": half})}, other=1.0)
    return steps("div", {"self": steps("muls", {"self": half}, other=2.0), "other": rest})


def _exponential_less_one(steps: Steps, self: Value) -> Value:
    large = steps("adds", {"self": steps("exp", {"self": self})}, other=-1.0)
    is_large = steps("gt_scalar", {"self": self}, other=1.0)
    return steps("s_where", {"condition": is_large, "self": large, "other": exponential_of_less(steps, self)})


def _times_log(steps: Steps, self: Value, other: Value) -> Value:
    """The result is 0 where self is 0, even if the other one is NaN there, unlike PyTorch's."""
    made = steps("mul", {"self": steps("log", {"self": other}), "other": self})
    return masked(steps, made, compared("eq_scalar")(steps, self, 0), 0)


def _sign(steps: Steps, self: Value) -> Value:
    """Computed as the gradient of the absolute difference to 0."""
    if is_exact(self):
        raise LocalError("no operator gives the sign of integers")
    inputs = {"grad_output": scalar_like(self, 1), "self": self, "target": scalar_like(self, 0)}
    return steps("l1_loss_backward", inputs, reduction=0)


def _clamped_by(steps: Steps, self: Value, min: Value | None = None, max: Value | None = None) -> Value:
    above = self if min is None else steps("maximum", {"self": self, "other": min})
    return above if max is None else steps("minimum", {"self": above, "other": max})


def _subtracted(steps: Steps, self: Value, other: Value, alpha: Number = 1) -> Value:
    if isinstance(other, Number):
        return steps("adds", {"self": steps("muls", {"self": self}, other=-alpha)}, other=other)
    return steps("sub", {"self": other, "other": self}, alpha=alpha)


def _and(operator: str) -> Row:
    """Returns the row of a sum with an operator's result for two more tensors."""

    def add(steps: Steps, self: Value, tensor1: Value, tensor2: Value, value: Number = 1) -> Value:
        return steps("add", {"self": self, "other": steps(operator, {"self": tensor1, "other": tensor2})}, alpha=value)

    return add


def _clamped(steps: Steps, self: Value, min: Number | None = None, max: Number | None = None) -> Value:
    least, most = (None if each is None or math.isinf(each) else each for each in (min, max))
    return steps("clamp", {"self": self}, clip_value_min=least, clip_value_max=most)


ROWS: Final[Mapping[Any, Row]] = {
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar), _sum(1)),
    **dict.fromkeys((aten.sub.Tensor, aten.sub.Scalar), _sum(-1)),
    **dict.fromkeys((aten.rsub.Tensor, aten.rsub.Scalar), _subtracted),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), product),
    aten.square.default: lambda steps, self: product(steps, self, self),
    **dict.fromkeys((aten.div.Tensor, aten.div.Scalar), _quotient),
    aten.addcmul.default: _and("mul"),
    aten.addcdiv.default: _and("div"),
    aten.maximum.default: of_two("maximum"),
    aten.minimum.default: of_two("minimum"),
    aten.pow.Tensor_Scalar: _power,
    aten.lerp.Scalar: in_float32(_between),
    aten.lerp.Tensor: in_float32(_between_by_weights),
    aten.log1p.default: in_float32(log_of_more),
    aten.expm1.default: in_float32(_exponential_less_one),
    aten.xlogy.Tensor: _times_log,
    **dict.fromkeys((aten.sign.default, aten.sgn.default), _sign),
    aten.clamp.Tensor: _clamped_by,
    aten.clamp.default: _clamped,
    aten.clamp_min.default: _clamped,
    aten.clamp_max.default: lambda steps, self, max: _clamped(steps, self, None, max),
    aten.clamp_min.Tensor: of_two("maximum"),
    aten.clamp_max.Tensor: of_two("minimum"),
    aten.hardtanh.default: lambda steps, self, min_val=-1, max_val=1: _clamped(steps, self, min_val, max_val),
    **{
        getattr(aten, name).default: of_one(name)
        for name in ("abs", "exp", "hardswish", "log", "neg", "reciprocal", "relu", "rsqrt", "sigmoid", "silu", "sqrt")
    },
    aten.tanh.default: of_one("tanh"),
    aten.gelu.default: lambda steps, self, approximate="none": steps("gelu_v2", {"x": self}, approximate=approximate),
    aten.leaky_relu.default: lambda steps, self, negative_slope=0.01: steps(
        "leaky_relu", {"self": self}, negative_slope=float(negative_slope)
    ),
}
