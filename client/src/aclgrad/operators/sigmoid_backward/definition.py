"""The logistic sigmoid and its gradient."""

import numpy as np

from aclgrad.operators._families.elementwise.definition import sigmoid, widened
from aclgrad.operators.definitions import Array


def backward(grad_output: Array, output: Array) -> Array:
    """The derivative of the sigmoid is a polynomial of its value."""
    grad, y = widened(grad_output, output)
    gradient: Array = grad * ((1 - y) * y)
    return gradient


def forward(grad_output: Array, output: Array, input: Array) -> Array:
    """Returns the output at `input` beyond the place where it is `output`."""
    y = output.astype(np.float64)
    return sigmoid(np.log(y / (1 - y)) + input)
