"""Adaptive average pooling over three axes and its gradient."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from aclgrad.operators.definitions import Array, shape_of


def backward(grad_output: Array, input: Array | Sequence[int]) -> Array:
    """Each cell of a window receives the window's gradient divided by the number of its cells."""
    gradient = np.zeros(shape_of(input))
    for cell in np.ndindex(*grad_output.shape[-3:]):
        sizes = zip(cell, gradient.shape[-3:], grad_output.shape[-3:], strict=True)
        window: Any = (slice(at * size // count, -(-(at + 1) * size // count)) for at, size, count in sizes)
        part = gradient[(..., *window)]
        part += (grad_output[(..., *cell)].astype(np.float64) / np.prod(part.shape[-3:]))[..., None, None, None]
    return gradient


def forward(grad_output: Array, input: Array) -> Array:
    """The mean of every window, one axis after the other: windows are boxes."""
    pooled = input
    for axis in (-3, -2, -1):
        means = [pooled.take(cells, axis).mean(axis) for cells in _windows(pooled.shape[axis], grad_output.shape[axis])]
        pooled = np.stack(means, axis)
    return pooled


def _windows(size: int, count: int) -> Iterator[Array]:
    edges = np.arange(count + 1) * size / count
    for low, high in pairwise(edges):
        yield np.arange(int(np.floor(low)), int(np.ceil(high)))
