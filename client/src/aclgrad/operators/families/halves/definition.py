"""Gated units and their gradients."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise.definition import sigmoid, widened


def glu_backward(grad_output: Array, input: Array, dim: int = -1) -> Array:
    """The product rule, for both halves."""
    grad, wide = widened(grad_output, input)
    a, b = np.split(wide, 2, dim)
    return np.concatenate([grad * sigmoid(b), grad * a * sigmoid(b) * sigmoid(-b)], dim)


def glu(grad_output: Array, input: Array, dim: int = -1) -> Array:
    """Divides the first half by 1 + exp(-b)."""
    a, b = np.split(input, 2, dim)
    return np.asarray(a / (1 + np.exp(-b)))


def swi_glu_grad(grad_output: Array, x: Array, dim: int = -1) -> Array:
    """The product rule, for both halves."""
    grad, wide = widened(grad_output, x)
    a, b = np.split(wide, 2, dim)
    of_a = grad * b * sigmoid(a) * (1 + a * sigmoid(-a))
    return np.concatenate([of_a, grad * a * sigmoid(a)], dim)


def swi_glu(grad_output: Array, x: Array, dim: int = -1) -> Array:
    """Multiplies the first half by its sigmoid, and by the second half."""
    a, b = np.split(x, 2, dim)
    return np.asarray(a / (1 + np.exp(-a)) * b)


def value_of_swi_glu(x: Array, dim: int = -1) -> Array:
    """The same of an array of any type."""
    a, b = np.split(x.astype(np.float64), 2, dim)
    return a * sigmoid(a) * b


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "glu_backward": Definition(glu_backward, glu),
    "swi_glu": Definition(value_of_swi_glu),
    "swi_glu_grad": Definition(swi_glu_grad, swi_glu),
}
