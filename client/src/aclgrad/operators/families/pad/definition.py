"""Padding over the last axes and its gradient; `padding` has two numbers for each axis, the last axis first."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from aclgrad.operators.definitions import Array, Definition, shape_of, wide


def replicated(position: int, size: int) -> int:
    """Returns the cell that a position beside an axis is a copy of: the edge."""
    return min(max(position, 0), size - 1)


def reflected(position: int, size: int) -> int:
    """Returns the cell that a position beside an axis mirrors."""
    inside = -position if position < 0 else position
    return inside if inside < size else 2 * (size - 1) - inside


def scattered(
    grad_output: Array, input: Array | Sequence[int], padding: Sequence[int], source: Callable[[int, int], int]
) -> Array:
    """Each padded cell gives its gradient to the cell that it was filled from, along one axis after the other."""
    gradient, shape = grad_output.astype(wide(grad_output)), shape_of(input)
    for axis, low in enumerate(padding[::2], 1):
        padded = np.moveaxis(gradient, -axis, 0)
        filled = np.zeros((shape[-axis], *padded.shape[1:]), gradient.dtype)
        for at, each in enumerate(padded):
            filled[source(at - low, shape[-axis])] += each
        gradient = np.moveaxis(filled, 0, -axis)
    return gradient


def padded(input: Array, padding: Sequence[int], mode: Literal["edge", "reflect"]) -> Array:
    """numpy's padding, then a crop for negative padding."""
    sides = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    leading = [(0, 0)] * (input.ndim - len(sides))
    grown = np.pad(input, leading + [(max(low, 0), max(high, 0)) for low, high in sides], mode=mode)
    kept = grown.shape[-len(sides) :]
    crop: list[Any] = [slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(sides, kept, strict=True)]
    return grown[(..., *crop)]


def replication_pad_backward(grad_output: Array, input: Array | Sequence[int], padding: Sequence[int]) -> Array:
    """Each padded cell gives its gradient to the cell that it is a copy of."""
    return scattered(grad_output, input, padding, replicated)


def replication_pad(grad_output: Array, input: Array, padding: Sequence[int]) -> Array:
    """numpy's edge padding, then a crop for negative padding."""
    return padded(input, padding, "edge")


def reflection_pad_backward(grad_output: Array, input: Array | Sequence[int], padding: Sequence[int]) -> Array:
    """Each padded cell gives its gradient to the cell that it mirrors."""
    return scattered(grad_output, input, padding, reflected)


def reflection_pad(grad_output: Array, input: Array, padding: Sequence[int]) -> Array:
    """numpy's reflect padding, then a crop for negative padding."""
    return padded(input, padding, "reflect")


def reflection_pad2d(input: Array, padding: Sequence[int]) -> Array:
    """numpy's reflect padding."""
    return padded(input.astype(wide(input)), padding, "reflect")


def replication_pad2d(input: Array, padding: Sequence[int]) -> Array:
    """numpy's edge padding."""
    return padded(input.astype(wide(input)), padding, "edge")


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "reflection_pad2d": Definition(reflection_pad2d),
    "replication_pad2d": Definition(replication_pad2d),
    **{f"reflection_pad{axes}d_backward": Definition(reflection_pad_backward, reflection_pad) for axes in (1, 2, 3)},
    **{f"replication_pad{axes}d_backward": Definition(replication_pad_backward, replication_pad) for axes in (1, 2, 3)},
}
