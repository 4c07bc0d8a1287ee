"""PReLU and its gradients."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.elementwise.definition import widened


def _of_channels(weight: Array, rank: int) -> Array:
    """Returns the weight, to be broadcast to channels."""
    return weight.reshape(()) if weight.size == 1 else weight.reshape(weight.size, *(1,) * (rank - 2))


def backward(grad_output: Array, input: Array, weight: Array) -> tuple[Array, Array]:
    """At 0 the slope is the weight."""
    grad, x, w = widened(grad_output, input, weight)
    terms = np.where(x > 0, 0, grad * x)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1) if weight.size != 1 else None
    return np.where(x > 0, grad, grad * _of_channels(w, x.ndim)), np.asarray(terms.sum(axes)).reshape(weight.shape)


def forward(grad_output: Array, input: Array, weight: Array) -> Array:
    """Adds both halves."""
    return np.asarray(np.maximum(input, 0) + _of_channels(weight, input.ndim) * np.minimum(input, 0))
