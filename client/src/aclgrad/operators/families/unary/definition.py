"""Functions of one tensor: in float64, or for those that keep integers in the integers' own type."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise import definition as gradients

Function = Callable[[Array], Array]


def _real(function: Function) -> Definition:
    def compute(input: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(input.astype(np.float64)))

    return Definition(compute)


def _exact(function: Function) -> Definition:
    def compute(input: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(function(input if input.dtype.kind in "iu" else input.astype(np.float64)))

    return Definition(compute)


def gelu_v2(x: Array, approximate: str = "none") -> Array:
    """Between the infinities; beyond 40 it is x or 0."""
    wide = x.astype(np.float64)
    return np.where(
        np.abs(wide) > 40, np.maximum(wide, 0), gradients.gelu_v2(wide, np.clip(wide, -40, 40), approximate)
    )


def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """Two lines through 0."""
    wide = input.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(wide > 0, wide, wide * gradients.rounded(negative_slope))


def _silu(x: Array) -> Array:
    return x * gradients.sigmoid(x)


def _hardswish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "neg": _exact(np.negative),
    "abs": _exact(np.abs),
    "exp": _real(np.exp),
    "log": _real(np.log),
    "sqrt": _real(np.sqrt),
    "rsqrt": _real(lambda x: 1 / np.sqrt(x)),
    "reciprocal": _real(lambda x: 1 / x),
    "relu": _exact(lambda x: np.maximum(x, 0)),
    "gelu_v2": Definition(gelu_v2),
    "silu": _real(_silu),
    "sigmoid": _real(gradients.sigmoid),
    "tanh": _real(np.tanh),
    "hardswish": _real(_hardswish),
    "leaky_relu": Definition(leaky_relu),
}
