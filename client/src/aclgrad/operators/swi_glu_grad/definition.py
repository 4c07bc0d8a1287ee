"""SwiGLU and its gradient."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.elementwise.definition import sigmoid, widened


def backward(grad_output: Array, x: Array, dim: int = -1) -> Array:
    """The product rule, for both halves."""
    grad, wide = widened(grad_output, x)
    a, b = np.split(wide, 2, dim)
    of_a = grad * b * sigmoid(a) * (1 + a * sigmoid(-a))
    return np.concatenate([of_a, grad * a * sigmoid(a)], dim)


def forward(grad_output: Array, x: Array, dim: int = -1) -> Array:
    """Multiplies the first half by its sigmoid, and by the second half."""
    a, b = np.split(x, 2, dim)
    result: Array = a / (1 + np.exp(-a)) * b
    return result
