"""Padding over the last axes and its gradient; `padding` has two numbers for each axis, the last axis first."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from aclgrad.operators.definitions import Array, shape_of, wide


def replicated(position: int, size: int) -> int:
    """Returns the cell that a position beside an axis is a copy of: the edge."""
    return min(max(position, 0), size - 1)


def reflected(position: int, size: int) -> int:
    """Returns the cell that a position beside an axis mirrors."""
    inside = -position if position < 0 else position
    return inside if inside < size else 2 * (size - 1) - inside


def backward(
    grad_output: Array, input: Array | Sequence[int], padding: Sequence[int], source: Callable[[int, int], int]
) -> Array:
    """Each padded cell gives its gradient to the cell that it was filled from."""
    gradient = np.zeros(shape_of(input), wide(grad_output))
    axes = len(padding) // 2
    sizes, before = gradient.shape[-axes:], padding[::2][::-1]
    for cell in np.ndindex(*grad_output.shape[-axes:]):
        target: list[Any] = [source(at - low, size) for at, low, size in zip(cell, before, sizes, strict=True)]
        gradient[(..., *target)] += grad_output[(..., *cell)].astype(gradient.dtype)
    return gradient


def forward(input: Array, padding: Sequence[int], mode: Literal["edge", "reflect"]) -> Array:
    """numpy's padding, then a crop for negative padding."""
    sides = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    leading = [(0, 0)] * (input.ndim - len(sides))
    padded = np.pad(input, leading + [(max(low, 0), max(high, 0)) for low, high in sides], mode=mode)
    kept = padded.shape[-len(sides) :]
    crop: list[Any] = [slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(sides, kept, strict=True)]
    return padded[(..., *crop)]
