"""The logarithm of softmax and its gradient."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.softmax.definition import log_softmax, rows_along


def backward(grad_output: Array, output: Array, dim: int) -> Array:
    """Multiplies each row by the transposed Jacobian: the identity less softmax in each of its rows."""
    grads, outputs = rows_along(dim, grad_output, output)
    gradient = np.zeros(grads.shape)
    for row in np.ndindex(*grads.shape[:-1]):
        gradient[row] = grads[row] - np.exp(outputs[row]) * grads[row].sum()
    return np.moveaxis(gradient, -1, dim).reshape(output.shape)


def forward(grad_output: Array, output: Array, dim: int, input: Array) -> Array:
    """Adds the input to one that has this output."""
    return log_softmax(output.astype(np.float64) + input, dim)
