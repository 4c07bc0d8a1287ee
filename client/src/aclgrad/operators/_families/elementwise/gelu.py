"""GELU, exact or by a hyperbolic tangent, and its gradient."""

import math
from typing import Any, Final

import numpy as np

from aclgrad.operators._families.elementwise.definition import widened
from aclgrad.operators.definitions import Array

_SCALE: Final = math.sqrt(2 / math.pi)
_CUBE: Final = 0.044715
_erfc: Any = np.vectorize(math.erfc, otypes=[np.float64])


def backward(grad_output: Array, input: Array, approximate: str) -> Array:
    """The product rule. The derivative is 0 or 1 beyond 30, also at infinity."""
    grad, x = widened(grad_output, input)
    x = np.clip(x, -30, 30)
    if approximate == "none":
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        gradient: Array = grad * (0.5 * _erfc(-x / math.sqrt(2)) + x * density)
        return gradient
    tangent = np.tanh(_SCALE * (x + _CUBE * x**3))
    slope = 0.5 * x * (1 - tangent**2) * _SCALE * (1 + 3 * _CUBE * x**2)
    tangential: Array = grad * (0.5 * (1 + tangent) + slope)
    return tangential


def forward(input: Array, approximate: str) -> Array:
    """The input times the distribution of normal numbers, or its approximation."""
    if approximate == "none":
        exact: Array = input * 0.5 * _erfc(-input / math.sqrt(2))
        return exact
    result: Array = 0.5 * input * (1 + np.tanh(_SCALE * (input + _CUBE * input**3)))
    return result
