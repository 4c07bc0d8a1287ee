"""Sums, means, extremes and deviations along axes, and softmax."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad.torch.aten.comparisons import masked
from aclgrad.torch.aten.steps import Number, Row, Steps, Value, cast, in_float32, is_exact
from aclgrad.torch.calls import LocalError

aten: Final = torch.ops.aten
Axes = Sequence[int] | int | None


def _softmax(operator: str) -> Row:
    def add(steps: Steps, self: Value, dim: int, half_to_float: bool) -> Value:
        return steps(operator, {"self": cast(steps, self, torch.float32) if half_to_float else self}, dim=dim)

    return add


def _safe_softmax(steps: Steps, self: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """Gives 0 in rows that are all minus infinity."""
    scores = self if dtype is None else cast(steps, self, dtype)
    largest = steps("amax", {"self": scores}, dim=(dim,), keep_dim=True)
    is_empty = steps("lt_scalar", {"self": largest}, other=torch.finfo(getattr(torch, scores.dtype.name)).min)
    return masked(steps, steps("softmax", {"self": scores}, dim=dim), is_empty, 0.0)


def _reduction(operator: str, axes: str = "dim", keeps: str = "keep_dim") -> Row:
    def add(
        steps: Steps,
        self: Value,
        dim: Axes = None,
        keepdim: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Value:
        given = {axes: _listed(dim), keeps: keepdim}
        return steps(operator, {"self": self}, **given, dtype=dtype)

    return add


def _listed(dim: Axes) -> tuple[int, ...]:
    """Returns the axes as a list, which is empty for all of them."""
    return (dim,) if isinstance(dim, int) else tuple(dim or ())


_plain_sum, _mean = _reduction("reduce_sum", "dims", "keep_dims"), _reduction("mean")
_largest = _reduction("amax")
_MOST_COUNTED: Final = 2**24
"""The largest count that float32 represents exactly."""


def _sum(steps: Steps, self: Value, dim: Axes = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    """Sums of truth values are counts."""
    if not is_exact(self):
        return _plain_sum(steps, self, dim, keepdim, dtype)
    if self.dtype != np.bool_ or self.size > _MOST_COUNTED:
        raise LocalError("no operator adds up integers")
    counted = _plain_sum(steps, cast(steps, self, torch.float32), dim, keepdim)
    return cast(steps, counted, dtype or torch.int64)


def _smallest(steps: Steps, self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    return steps("neg", {"self": _largest(steps, steps("neg", {"self": self}), dim, keepdim)})


def _with_places(row: Row) -> Row:
    """Returns the row of extremes with positions, which no operator gives."""
    return lambda steps, self, dim, keepdim=False: (row(steps, self, dim, keepdim), None)


def _deviation(steps: Steps, self: Value, dim: Axes, correction: Number | None, keepdim: bool) -> tuple[Value, Value]:
    """Returns the variance of a float32 tensor, and its mean with all axes kept."""
    axes = _listed(dim) or tuple(range(self.ndim))
    count = math.prod(self.shape[axis] for axis in axes) - (1 if correction is None else correction)
    if count <= 0:
        raise LocalError("no operator gives the variance of too few elements")
    mean = _mean(steps, self, axes, True)
    away = steps("sub", {"self": self, "other": mean})
    squares = _plain_sum(steps, steps("mul", {"self": away, "other": away}), axes, keepdim)
    return steps("divs", {"self": squares}, other=float(count)), mean


@in_float32
def _variance(
    steps: Steps, self: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> Value:
    return _deviation(steps, self, dim, correction, keepdim)[0]


@in_float32
def _root(
    steps: Steps, self: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> Value:
    return steps("sqrt", {"self": _deviation(steps, self, dim, correction, keepdim)[0]})


def _variance_and_mean(
    steps: Steps, self: Value, dim: Axes = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    variance, mean = _deviation(steps, cast(steps, self, torch.float32), dim, correction, keepdim)
    return cast(steps, variance, self.dtype), cast(steps, mean.reshape(variance.shape), self.dtype)


@in_float32
def _norm(
    steps: Steps,
    self: Value,
    ord: Number = 2,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    if dtype is not None:
        raise LocalError("no operator gives a norm in another type")
    if ord == 2:
        squares = _plain_sum(steps, steps("mul", {"self": self, "other": self}), dim, keepdim)
        return steps("sqrt", {"self": squares})
    sizes = steps("abs", {"self": self})
    if ord == 1:
        return _plain_sum(steps, sizes, dim, keepdim)
    if ord == math.inf:
        return _largest(steps, sizes, dim, keepdim)
    raise LocalError(f"no operator gives the norm of order {ord}")


ROWS: Final[Mapping[Any, Row]] = {
    aten._softmax.default: _softmax("softmax"),  # noqa: SLF001 - ATen's name
    aten._log_softmax.default: _softmax("log_softmax"),  # noqa: SLF001
    aten._safe_softmax.default: _safe_softmax,  # noqa: SLF001
    aten.sum.default: lambda steps, self, dtype=None: _sum(steps, self, dtype=dtype),
    aten.sum.dim_IntList: _sum,
    aten.mean.default: lambda steps, self, dtype=None: _mean(steps, self, dtype=dtype),
    aten.mean.dim: _mean,
    **dict.fromkeys((aten.amax.default, aten.max.default), _largest),
    **dict.fromkeys((aten.amin.default, aten.min.default), _smallest),
    aten.max.dim: _with_places(_largest),
    aten.min.dim: _with_places(_smallest),
    aten.var.correction: _variance,
    aten.std.correction: _root,
    aten.var_mean.correction: _variance_and_mean,
    aten.linalg_vector_norm.default: _norm,
}
