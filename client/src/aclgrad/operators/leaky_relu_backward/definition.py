"""Leaky ReLU and its gradient."""

import numpy as np

from aclgrad.operators._families.elementwise.definition import widened
from aclgrad.operators.definitions import Array


def backward(grad_output: Array, input: Array, negative_slope: float, self_is_result: bool = False) -> Array:
    """At 0, and where the input is not a number, the slope is that of negative numbers."""
    grad, x = widened(grad_output, input)
    return np.where(x > 0, grad, grad * float(np.float32(negative_slope)))


def forward(grad_output: Array, input: Array, negative_slope: float, self_is_result: bool = False) -> Array:
    """Adds both halves; the result has the signs of the input if the slope is above 0."""
    result: Array = np.maximum(input, 0) + float(np.float32(negative_slope)) * np.minimum(input, 0)
    return result
