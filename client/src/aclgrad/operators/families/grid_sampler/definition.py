"""Sampling planes or volumes at the points of a grid, and its gradients. Points have x first, and sizes have W last."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.grid_sampler.spec import NEAREST, Padding

_OUTSIDE = -100.0
"""Where a point is that is not at a number: outside any image, as on devices."""


def backward(
    grad_output: Array, input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> tuple[Array, Array]:
    """Each point gives its gradient to the cells around it by their weights; its own is that of the weights."""
    grads, cells = grad_output.astype(np.float64), input.astype(np.float64)
    input_grad, grid_grad = np.zeros(input.shape), np.zeros(grid.shape)
    sizes = input.shape[:1:-1]
    axes = range(len(sizes))
    # How much each sampled value grows along each axis.
    growth = np.zeros((len(sizes), *grads.shape))
    positions, slopes = zip(
        *(_positions(grid[..., axis], sizes[axis], padding_mode, align_corners) for axis in axes), strict=True
    )
    for corner, weights, inside, samples, taken in _corners(positions, sizes, interpolation_mode):
        np.add.at(input_grad, taken, grads[samples] * np.prod(weights, axis=0)[inside][:, None])
        for axis in axes if interpolation_mode != NEAREST else ():
            edge = (2 * corner[axis] - 1) * np.prod([weights[other] for other in axes if other != axis], axis=0)
            growth[axis][samples] += cells[taken] * edge[inside][:, None]
    if interpolation_mode != NEAREST:
        for axis in axes:
            grid_grad[..., axis] = (grads * growth[axis]).sum(axis=1) * slopes[axis]
    return input_grad, grid_grad


def value(input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    """Each point takes the cells around it by their weights."""
    cells, sizes = input.astype(np.float64), input.shape[:1:-1]
    sampled = np.zeros((*input.shape[:2], *grid.shape[1:-1]))
    positions = [_positions(grid[..., axis], size, padding_mode, align_corners)[0] for axis, size in enumerate(sizes)]
    for _, weights, inside, samples, taken in _corners(positions, sizes, interpolation_mode):
        sampled[samples] += cells[taken] * np.prod(weights, axis=0)[inside][:, None]
    return sampled


def _corners(
    positions: Sequence[Array], sizes: Sequence[int], interpolation_mode: int
) -> Iterator[tuple[tuple[int, ...], list[Array], Any, Any, Any]]:
    """Yields each corner of the cells around points, with the weights of its cells along each axis, the points of which
    the cells exist, and where the samples of these and the cells are.
    """
    for corner in np.ndindex((1 if interpolation_mode == NEAREST else 2,) * len(sizes)):
        if interpolation_mode == NEAREST:
            at = [np.rint(position) for position in positions]
            weights = [np.ones(position.shape) for position in positions]
        else:
            at = [np.floor(position) + after for position, after in zip(positions, corner, strict=True)]
            weights = [1 - np.abs(position - cell) for position, cell in zip(positions, at, strict=True)]
        exists = [(each >= 0) & (each < size) for each, size in zip(at, sizes, strict=True)]
        inside = np.nonzero(np.all(exists, axis=0))
        image, *point = inside
        taken = (image, slice(None), *(each[inside].astype(int) for each in reversed(at)))
        yield corner, weights, inside, (image, slice(None), *point), taken


def _positions(values: Array, size: int, padding_mode: int, align_corners: bool) -> tuple[Array, Array]:
    """Where points are along one axis, with cells at whole numbers, and the derivative of that by the values."""
    values = values.astype(np.float64)
    slope = np.full(values.shape, (size - 1 if align_corners else size) / 2)
    with np.errstate(invalid="ignore"):
        at = (values + 1) / 2 * (size - 1) if align_corners else ((values + 1) * size - 1) / 2
        if padding_mode == Padding.REFLECTION:
            # The span of a single cell between centres is 0, and so is its place.
            low, span = (0.0, max(size - 1.0, 1.0)) if align_corners else (-0.5, float(size))
            phase = np.mod(at - low, 2 * span)
            at = low + np.where(phase < span, phase, 2 * span - phase)
            slope = np.where(phase < span, slope, -slope)
        if padding_mode != Padding.ZEROS:
            slope = np.where((at <= 0) | (at >= size - 1), 0.0, slope)
            at = np.clip(at, 0, size - 1)
        return np.where(np.isfinite(at), at, _OUTSIDE), slope


def forward(
    grad_output: Array, input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """Products with weights for every cell along each axis: hats, or ones at the nearest."""
    weights = []
    sizes = input.shape[2:]
    for axis, size in enumerate(reversed(sizes)):
        unit = grid[..., axis].astype(np.float64)
        at = (size - 1) * (unit + 1) / 2 if align_corners else size * (unit + 1) / 2 - 0.5
        if padding_mode == Padding.REFLECTION:
            low, span = (0.0, size - 1) if align_corners else (-0.5, size)
            at = low + span - np.abs(np.remainder(at - low, 2 * max(span, 1)) - span)
        if padding_mode != Padding.ZEROS:
            at = np.minimum(np.maximum(at, 0), size - 1)
        distance = np.abs((np.rint(at) if interpolation_mode == NEAREST else at)[..., None] - np.arange(size))
        weights.append(np.maximum(1 - distance, 0))
    points, cells = "pqr"[: len(sizes)], "dhw"[-len(sizes) :]
    factors = ",".join(f"n{points}{each}" for each in reversed(cells))
    sampled: Array = np.einsum(f"{factors},nc{cells}->nc{points}", *weights, input, optimize=True)
    return sampled


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "grid_sampler2d": Definition(value),
    **{f"grid_sampler{axes}d_backward": Definition(backward, forward) for axes in (2, 3)},
}
