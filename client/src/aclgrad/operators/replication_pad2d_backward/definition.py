"""Replication padding in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array, shape_of, wide


def backward(grad_output: Array, input: Array | Sequence[int], padding: Sequence[int]) -> Array:
    """Each padded cell gives its gradient to the cell at its position, clamped into the plane."""
    left, _, top, _ = padding
    gradient = np.zeros(shape_of(input), wide(grad_output))
    height, width = gradient.shape[-2:]
    for y in range(grad_output.shape[-2]):
        for x in range(grad_output.shape[-1]):
            row, column = min(max(y - top, 0), height - 1), min(max(x - left, 0), width - 1)
            gradient[..., row, column] += grad_output[..., y, x].astype(gradient.dtype)
    return gradient


def forward(grad_output: Array, input: Array, padding: Sequence[int]) -> Array:
    """numpy's edge padding, then a crop for what is negative."""
    left, right, top, bottom = padding
    outer = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))]
    padded = np.pad(input, [(0, 0)] * (input.ndim - 2) + outer, mode="edge")
    height, width = padded.shape[-2:]
    rows = slice(max(-top, 0), height - max(-bottom, 0))
    return padded[..., rows, slice(max(-left, 0), width - max(-right, 0))]
