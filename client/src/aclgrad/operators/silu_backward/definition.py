"""SiLU and its gradient."""

import numpy as np

from aclgrad.operators._families.elementwise.definition import sigmoid, widened
from aclgrad.operators.definitions import Array


def backward(grad_output: Array, input: Array) -> Array:
    """The product rule; not a number at both infinities."""
    grad, x = widened(grad_output, input)
    with np.errstate(invalid="ignore"):
        gradient: Array = grad * sigmoid(x) * (1 + x * sigmoid(-x))
    return gradient


def forward(grad_output: Array, input: Array) -> Array:
    """Divides the input by 1 + exp(-input)."""
    result: Array = input / (1 + np.exp(-input))
    return result
