"""Layer normalisation and its gradients."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array

EPSILON: Final = 1e-5
"""What the forward function adds to each variance; the gradients have it in `rstd`."""


def backward(
    grad_output: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | Sequence[int] | None = None,
) -> tuple[Array, Array, Array]:
    """Row by row: the mean and the deviation are functions of the row, too."""
    columns = math.prod(normalized_shape)
    rows = math.prod(input.shape[: input.ndim - len(normalized_shape)])
    grads, inputs = (each.astype(np.float64).reshape(rows, columns) for each in (grad_output, input))
    means, factors = (each.astype(np.float64).reshape(rows) for each in (mean, rstd))
    weights = np.ones(columns) if weight is None else weight.astype(np.float64).reshape(columns)
    grad_input, grad_weight, grad_bias = np.zeros((rows, columns)), np.zeros(columns), np.zeros(columns)
    for row in range(rows if columns else 0):
        normalised = (inputs[row] - means[row]) * factors[row]
        weighted = grads[row] * weights
        along = normalised * (weighted * normalised).mean()
        grad_input[row] = factors[row] * (weighted - weighted.mean() - along)
        grad_weight += grads[row] * normalised
        grad_bias += grads[row]
    shape = tuple(normalized_shape)
    return grad_input.reshape(input.shape), grad_weight.reshape(shape), grad_bias.reshape(shape)


def forward(
    grad_output: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Normalises by the input's own mean and variance, over all axes at once."""
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    centred: Array = input - (input.mean(axes, keepdims=True) if input.size else 0.0)
    variance = np.square(centred).mean(axes, keepdims=True) if input.size else 0.0
    scaled: Array = centred / np.sqrt(variance + EPSILON) * (1.0 if weight is None else weight)
    return scaled if bias is None else scaled + bias
