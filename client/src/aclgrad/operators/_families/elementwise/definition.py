"""What the definitions of elementwise gradients share."""

import numpy as np

from aclgrad.operators.definitions import Array, wide


def widened(*arrays: Array) -> list[Array]:
    """Returns the arrays in float64, or complex128."""
    return [np.asarray(each, wide(each)) for each in arrays]


def sigmoid(x: Array) -> Array:
    """Returns 1 / (1 + exp(-x)) of real numbers, which overflows for none."""
    return np.exp(-np.logaddexp(0, -x))
