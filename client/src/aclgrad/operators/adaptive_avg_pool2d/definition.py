"""Adaptive average pooling."""

from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array


def value(input: Array, output_size: Sequence[int]) -> Array:
    """The mean of every window."""
    (height, width), (rows, columns) = input.shape[-2:], output_size
    pooled = np.zeros((*input.shape[:-2], rows, columns))
    for i, j in np.ndindex(rows, columns):
        tall = slice(i * height // rows, -(-(i + 1) * height // rows))
        broad = slice(j * width // columns, -(-(j + 1) * width // columns))
        pooled[..., i, j] = input[..., tall, broad].astype(np.float64).mean(axis=(-2, -1))
    return pooled
