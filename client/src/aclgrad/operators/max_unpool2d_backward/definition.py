"""Max unpooling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.max_unpool.definition import gather


def backward(grad_output: Array, input: Array | Sequence[int], indices: Array, output_size: Sequence[int]) -> Array:
    """Each cell takes the gradient of the cell that it was written to."""
    return gather(grad_output, input, indices, axes=2)


def forward(grad_output: Array, input: Array, indices: Array, output_size: Sequence[int]) -> Array:
    """Every value added at its index: where indices repeat, a gradient of the sum is what the gather computes."""
    unpooled = np.zeros((*input.shape[:-2], output_size[0] * output_size[1]))
    for plane in np.ndindex(*input.shape[:-2]):
        np.add.at(unpooled[plane], indices[plane].reshape(-1), input[plane].reshape(-1))
    return unpooled.reshape(*input.shape[:-2], *output_size)
