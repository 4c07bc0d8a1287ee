"""Convolution tap by tap: each is a product of matrices, of the cells that it brings together."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.convolution.geometry import Geometry


def by_group(array: Array, axis: int, groups: int) -> Array:
    shape = array.shape
    return array.astype(np.float64).reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def on_grid(big: Array, geometry: Geometry) -> Array:
    """Returns the big side by groups, with zeros around it for what taps reach beyond."""
    axes = zip(
        big.shape[2:],
        geometry.small[2:],
        geometry.kernel,
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        strict=True,
    )
    pads = [(p, max((q - 1) * s + d * (k - 1) + 1 - p - size, 0)) for size, q, k, s, p, d in axes]
    return np.pad(by_group(big, 1, geometry.groups), [(0, 0)] * 3 + pads)


def at(places: Sequence[Any]) -> Any:
    """Returns the index of these places along the last axes."""
    return (..., *places)


def taps(geometry: Geometry) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yields each tap, and the cells of the grid that it touches."""
    for tap in np.ndindex(*geometry.kernel):
        axes = zip(tap, geometry.small[2:], geometry.stride, geometry.dilation, strict=True)
        yield tap, tuple(slice(k * d, k * d + (q - 1) * s + 1, s) for k, q, s, d in axes)


def gathered(grid: Array, weight: Array, geometry: Geometry) -> Array:
    """Returns the small side, by groups."""
    found = np.zeros((*grid.shape[:2], weight.shape[1], *geometry.small[2:]))
    for tap, cells in taps(geometry):
        found += np.einsum("ngc...,goc->ngo...", grid[at(cells)], weight[at(tap)], optimize=True)
    return found


def scattered(small: Array, weight: Array, geometry: Geometry) -> Array:
    """Returns the big side."""
    small = by_group(small, 1, geometry.groups)
    grid: Array = np.zeros_like(on_grid(np.zeros(geometry.big), geometry))
    for tap, cells in taps(geometry):
        grid[at(cells)] += np.einsum("ngo...,goc->ngc...", small, weight[at(tap)], optimize=True)
    inside = tuple(slice(p, p + size) for p, size in zip(geometry.padding, geometry.big[2:], strict=True))
    found: Array = grid[at(inside)].reshape(geometry.big)
    return found
