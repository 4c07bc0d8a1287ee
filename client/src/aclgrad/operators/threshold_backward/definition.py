"""A threshold and its gradient."""

import numpy as np

from aclgrad.operators._families.elementwise.definition import widened
from aclgrad.operators.definitions import Array


def backward(grad_output: Array, input: Array, threshold: float) -> Array:
    """The gradient passes where the function does, and where the input is not a number."""
    grad, x = widened(grad_output, input)
    return np.where(x <= float(np.float32(threshold)), 0, grad)


def forward(grad_output: Array, input: Array, threshold: float) -> Array:
    """Puts a constant in the place of what is not above the threshold; the threshold itself, as ReLU."""
    return np.maximum(input, float(np.float32(threshold)))
