"""Adaptive average pooling and its gradient."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from aclgrad.operators.definitions import Array, shape_of


def backward(grad_output: Array, input: Array | Sequence[int]) -> Array:
    """Each cell of a window receives the window's gradient divided by the number of its cells."""
    gradient = np.zeros(shape_of(input))
    height, width = gradient.shape[-2:]
    rows, columns = grad_output.shape[-2:]
    for i in range(rows):
        top, bottom = i * height // rows, -(-(i + 1) * height // rows)
        for j in range(columns):
            left, right = j * width // columns, -(-(j + 1) * width // columns)
            count = (bottom - top) * (right - left)
            if count:
                share = grad_output[..., i, j].astype(np.float64) / count
                gradient[..., top:bottom, left:right] += share[..., None, None]
    return gradient


def forward(grad_output: Array, input: Array) -> Array:
    """The mean of every window; an empty window has the mean 0."""
    pooled = np.zeros(grad_output.shape)
    (height, width), (rows, columns) = input.shape[-2:], grad_output.shape[-2:]
    for i, tall in enumerate(_windows(height, rows)):
        for j, broad in enumerate(_windows(width, columns)):
            window = input[..., tall, broad]
            if window.shape[-1] * window.shape[-2]:
                pooled[..., i, j] = window.mean(axis=(-2, -1))
    return pooled


def _windows(size: int, count: int) -> list[slice]:
    edges = np.arange(count + 1) * size / max(count, 1)
    return [slice(int(np.floor(low)), int(np.ceil(high))) for low, high in pairwise(edges)]
