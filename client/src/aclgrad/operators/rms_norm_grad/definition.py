"""Root mean square normalisation and its gradients."""

from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array

EPSILON: Final = 1e-2
"""What the forward function adds to each mean square; the gradients have it in `rstd`. Not small, because rows of one
element are steep near 0."""


def backward(grad_output: Array, input: Array, rstd: Array, gamma: Array) -> tuple[Array, Array]:
    """Row by row: the mean square is a function of the row, too."""
    columns = gamma.size
    grads, inputs = (each.astype(np.float64).reshape(rstd.size, columns) for each in (grad_output, input))
    factors, weights = rstd.astype(np.float64).reshape(-1), gamma.astype(np.float64).reshape(columns)
    dx, dgamma = np.zeros((rstd.size, columns)), np.zeros(columns)
    for row, factor in enumerate(factors):
        normalised, weighted = inputs[row] * factor, grads[row] * weights
        dx[row] = factor * (weighted - normalised * (weighted * normalised).mean())
        dgamma += grads[row] * normalised
    return dx.reshape(input.shape), dgamma.reshape(gamma.shape)


def forward(grad_output: Array, input: Array, rstd: Array, gamma: Array) -> Array:
    """Divides by the root of the input's own mean square, over all axes at once."""
    axes = tuple(range(input.ndim - gamma.ndim, input.ndim))
    return np.asarray(input / np.sqrt(np.square(input).mean(axes, keepdims=True) + EPSILON) * gamma)
