"""Softmax and its gradient."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.softmax.definition import rows_along, softmax


def backward(grad_output: Array, output: Array, dim: int) -> Array:
    """Row by row: the product with the Jacobian of softmax, which the output gives."""
    grads, outputs = rows_along(dim, grad_output, output)
    gradient = np.zeros(grads.shape)
    for row in np.ndindex(*grads.shape[:-1]):
        gradient[row] = outputs[row] * (grads[row] - outputs[row] @ grads[row])
    return np.moveaxis(gradient, -1, dim).reshape(output.shape)


def forward(grad_output: Array, output: Array, dim: int, input: Array) -> Array:
    """Adds the input to one that has this output."""
    return softmax(np.log(output.astype(np.float64)) + input, dim)
