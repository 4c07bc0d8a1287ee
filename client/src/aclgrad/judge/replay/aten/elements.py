"""Functions of single elements, and reductions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from aclgrad.judge.replay.aten.steps import Number, Row, Steps, Value, along, cast, of_one, scalar_like

aten: Final = torch.ops.aten


def of_two(operator: str, of_number: str = "") -> Row:
    """Returns the row of a function whose second argument may be a number, if there is an operator for that."""

    def add(steps: Steps, self: Value, other: Value) -> Value:
        if of_number and isinstance(other, Number):
            return steps(of_number, {"self": self}, other=other)
        return steps(operator, {"self": self, "other": other})

    return add


def _sum(sign: int) -> Row:
    def add(steps: Steps, self: Value, other: Value, alpha: Number = 1) -> Value:
        if isinstance(other, Number):
            return steps("adds", {"self": self}, other=other, alpha=sign * alpha)
        return steps("add" if sign > 0 else "sub", {"self": self, "other": other}, alpha=alpha)

    return add


def _subtracted(steps: Steps, self: Value, other: Value, alpha: Number = 1) -> Value:
    if isinstance(other, Number):
        return steps("adds", {"self": steps("muls", {"self": self}, other=-alpha)}, other=other)
    return steps("sub", {"self": other, "other": self}, alpha=alpha)


def _and(operator: str) -> Row:
    """Returns the row of a sum with the result of an operator of two more tensors."""

    def add(steps: Steps, self: Value, tensor1: Value, tensor2: Value, value: Number = 1) -> Value:
        return steps("add", {"self": self, "other": steps(operator, {"self": tensor1, "other": tensor2})}, alpha=value)

    return add


def _clamped(steps: Steps, self: Value, min: Number | None = None, max: Number | None = None) -> Value:
    least, most = (None if each is None or math.isinf(each) else each for each in (min, max))
    return steps("clamp", {"self": self}, clip_value_min=least, clip_value_max=most)


def _masked(steps: Steps, self: Value, mask: Value, value: Value) -> Value:
    other = scalar_like(self, value) if isinstance(value, Number) else value
    return steps("s_where", {"condition": mask, "self": other, "other": self})


def _compared(operator: str) -> Row:
    """Returns the row of a comparison with a number, which PyTorch rounds to the tensor's type."""

    def add(steps: Steps, self: Value, other: Number) -> Value:
        is_rounded = isinstance(other, float) and self.dtype.kind not in "iub"
        return steps(operator, {"self": self}, other=float(scalar_like(self, other)) if is_rounded else other)

    return add


def _threshold(steps: Steps, self: Value, threshold: Number, value: Number) -> Value:
    return _masked(steps, self, _compared("le_scalar")(steps, self, threshold), value)


def _glu(steps: Steps, self: Value, dim: int = -1) -> Value:
    half = self.shape[dim] // 2
    gate = steps("sigmoid", {"self": along(self, dim, slice(half, None))})
    return steps("mul", {"self": along(self, dim, slice(half)), "other": gate})


def _softmax(operator: str) -> Row:
    def add(steps: Steps, self: Value, dim: int, half_to_float: bool) -> Value:
        return steps(operator, {"self": cast(steps, self, torch.float32) if half_to_float else self}, dim=dim)

    return add


def _reduction(operator: str, axes: str = "dim", keeps: str = "keep_dim") -> Row:
    def add(
        steps: Steps,
        self: Value,
        dim: Sequence[int] | int | None = None,
        keepdim: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Value:
        given = {axes: (dim,) if isinstance(dim, int) else tuple(dim or ()), keeps: keepdim}
        return steps(operator, {"self": self}, **given, dtype=dtype)

    return add


_sum_of_all, _mean = _reduction("reduce_sum", "dims", "keep_dims"), _reduction("mean")

ROWS: Final[Mapping[Any, Row]] = {
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar), _sum(1)),
    **dict.fromkeys((aten.sub.Tensor, aten.sub.Scalar), _sum(-1)),
    **dict.fromkeys((aten.rsub.Tensor, aten.rsub.Scalar), _subtracted),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), of_two("mul", "muls")),
    **dict.fromkeys((aten.div.Tensor, aten.div.Scalar), of_two("div", "divs")),
    aten.addcmul.default: _and("mul"),
    aten.addcdiv.default: _and("div"),
    aten.maximum.default: of_two("maximum"),
    aten.minimum.default: of_two("minimum"),
    aten.eq.Tensor: of_two("eq_tensor"),
    aten.gt.Tensor: of_two("gt_tensor"),
    aten.lt.Tensor: lambda steps, self, other: steps("gt_tensor", {"self": other, "other": self}),
    **{getattr(aten, name).Scalar: _compared(f"{name}_scalar") for name in ("eq", "ge", "gt", "le", "lt")},
    aten.pow.Tensor_Scalar: lambda steps, self, exponent: steps("pow_tensor_scalar", {"self": self}, exponent=exponent),
    aten.clamp.default: _clamped,
    aten.clamp_min.default: _clamped,
    aten.clamp_max.default: lambda steps, self, max: _clamped(steps, self, None, max),
    aten.clamp_min.Tensor: of_two("maximum"),
    aten.clamp_max.Tensor: of_two("minimum"),
    aten.hardtanh.default: lambda steps, self, min_val=-1, max_val=1: _clamped(steps, self, min_val, max_val),
    aten.where.self: lambda steps, condition, self, other: _masked(steps, other, condition, self),
    **dict.fromkeys((aten.masked_fill.Scalar, aten.masked_fill.Tensor), _masked),
    aten.threshold.default: _threshold,
    **{
        getattr(aten, name).default: of_one(name)
        for name in ("abs", "exp", "hardswish", "log", "neg", "reciprocal", "relu", "rsqrt", "sigmoid", "silu", "sqrt")
    },
    aten.tanh.default: of_one("tanh"),
    aten.gelu.default: lambda steps, self, approximate="none": steps("gelu_v2", {"x": self}, approximate=approximate),
    aten.leaky_relu.default: lambda steps, self, negative_slope=0.01: steps(
        "leaky_relu", {"self": self}, negative_slope=float(negative_slope)
    ),
    aten.glu.default: _glu,
    aten._softmax.default: _softmax("softmax"),  # noqa: SLF001 - ATen's name
    aten._log_softmax.default: _softmax("log_softmax"),  # noqa: SLF001
    aten.sum.default: lambda steps, self, dtype=None: _sum_of_all(steps, self, dtype=dtype),
    aten.sum.dim_IntList: _sum_of_all,
    aten.mean.default: lambda steps, self, dtype=None: _mean(steps, self, dtype=dtype),
    aten.mean.dim: _mean,
    **dict.fromkeys((aten.amax.default, aten.max.default), _reduction("amax")),
}
