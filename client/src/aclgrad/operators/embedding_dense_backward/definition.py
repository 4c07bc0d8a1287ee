"""Looking up rows of a weight, and the gradient of the weight."""

import numpy as np

from aclgrad.operators.definitions import Array


def backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Array:
    """Each row of the gradient goes to the row of its index."""
    columns, flat = grad_output.shape[-1], indices.reshape(-1)
    gradient = np.zeros((num_weights, columns))
    for index, row in zip(flat, grad_output.astype(np.float64).reshape(flat.size, columns), strict=True):
        if index != padding_idx:
            gradient[index] += row / ((flat == index).sum() if scale_grad_by_freq else 1)
    return gradient


def forward(
    grad_output: Array,
    indices: Array,
    num_weights: int,
    input: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> Array:
    """Takes rows of the input, the weight. Those of the padding are constants; scaled, equal ones are means."""
    rows = input[indices]
    if padding_idx >= 0:
        rows = np.where((indices == padding_idx)[..., None], 0.0, rows)
    if scale_grad_by_freq:
        _, inverse, counts = np.unique(indices, return_inverse=True, return_counts=True)
        rows = rows / counts[inverse.reshape(indices.shape)][..., None]
    return np.asarray(rows)
