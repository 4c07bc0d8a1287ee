"""Normalisations: the results, and the statistics that their gradients take."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise.definition import rounded, widened


def _normalised(wide: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """Returns the elements that are normalised over these axes, their mean, and 1 / sqrt(variance + eps).

    The mean of nothing is 0 here, and the reciprocal is NaN.
    """
    count = np.prod([wide.shape[axis] for axis in axes])
    mean: Array = wide.sum(axes, keepdims=True) / max(count, 1)
    variance = np.square(wide - mean).sum(axes, keepdims=True) / (count or np.nan)
    rstd = 1 / np.sqrt(variance + rounded(eps))
    return (wide - mean) * rstd, mean, rstd


def _scaled(normalised: Array, weight: Array | None, bias: Array | None) -> Array:
    scaled = normalised if weight is None else normalised * widened(weight)[0]
    return scaled if bias is None else scaled + widened(bias)[0]


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """Over the last sizes."""
    (wide,) = widened(input)
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    normalised, mean, rstd = _normalised(wide, axes, eps)
    return _scaled(normalised, weight, bias), mean, rstd


def group_norm(
    input: Array,
    n: int,
    c: int,
    hxw: int,
    group: int,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """Over the channels of a group."""
    (wide,) = widened(input)
    normalised, mean, rstd = _normalised(wide.reshape(n, group, c // group * hxw), (2,), eps)
    columns = [None if each is None else each.reshape(c, 1) for each in (gamma, beta)]
    out = _scaled(normalised.reshape(n, c, hxw), *columns)
    return out.reshape(input.shape), mean.reshape(n, group), rstd.reshape(n, group)


def rms_norm(x: Array, gamma: Array, epsilon: float = 1e-6) -> tuple[Array, Array]:
    """Over the sizes of gamma, without a mean."""
    wide, weight = widened(x, gamma)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = 1 / np.sqrt(np.square(wide).mean(axes, keepdims=True) + rounded(epsilon))
    return wide * rstd * weight, rstd


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "group_norm": Definition(group_norm),
    "layer_norm": Definition(layer_norm),
    "rms_norm": Definition(rms_norm),
}
