"""Max unpooling in three dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.max_unpool.definition import gather


def backward(
    grad_output: Array,
    input: Array | Sequence[int],
    indices: Array,
    output_size: Sequence[int],
    stride: Sequence[int] = (1, 1, 1),
    padding: Sequence[int] = (0, 0, 0),
) -> Array:
    """Each cell takes the gradient of the cell that it was written to."""
    return gather(grad_output, input, indices, axes=3)


def forward(
    grad_output: Array,
    input: Array,
    indices: Array,
    output_size: Sequence[int],
    stride: Sequence[int] = (1, 1, 1),
    padding: Sequence[int] = (0, 0, 0),
) -> Array:
    """Every value is added at its index: if indices repeat, the gather computes the gradient of the sum."""
    leading = input.shape[:-3]
    flat = np.zeros((*leading, int(np.prod(output_size))))
    for plane in np.ndindex(*leading):
        np.add.at(flat[plane], indices[plane].reshape(-1), input[plane].reshape(-1))
    return flat.reshape(*leading, *output_size)
