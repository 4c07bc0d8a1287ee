"""Sampling an image at the points of a grid, and its gradients."""

from typing import Any

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.grid_sampler2d_backward.spec import NEAREST, Padding

_OUTSIDE = -100.0
"""Where a point is that is not at a number: outside any image, as on devices."""


def backward(
    grad_output: Array, input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> tuple[Array, Array]:
    """Each point gives its gradient to the cells around it by their weights; its own is that of the weights."""
    grads, cells = grad_output.astype(np.float64), input.astype(np.float64)
    input_grad, grid_grad = np.zeros(input.shape), np.zeros(grid.shape)
    # How much each sampled value grows with x and with y.
    growth_x, growth_y = np.zeros(grads.shape), np.zeros(grads.shape)
    height, width = input.shape[2:]
    x, slope_x = _places(grid[..., 0], width, padding_mode, align_corners)
    y, slope_y = _places(grid[..., 1], height, padding_mode, align_corners)
    for right, below in [(0, 0)] if interpolation_mode == NEAREST else np.ndindex(2, 2):
        if interpolation_mode == NEAREST:
            columns, rows = np.rint(x), np.rint(y)
            weight_x = weight_y = np.ones(x.shape)
        else:
            columns, rows = np.floor(x) + right, np.floor(y) + below
            weight_x, weight_y = 1 - np.abs(x - columns), 1 - np.abs(y - rows)
        inside = np.nonzero((columns >= 0) & (columns < width) & (rows >= 0) & (rows < height))
        image, i, j = inside
        place: Any = (image, slice(None), rows[inside].astype(int), columns[inside].astype(int))
        share = grads[image, :, i, j]
        np.add.at(input_grad, place, share * (weight_x * weight_y)[inside][:, None])
        if interpolation_mode != NEAREST:
            growth_x[image, :, i, j] += cells[place] * ((2 * right - 1) * weight_y)[inside][:, None]
            growth_y[image, :, i, j] += cells[place] * ((2 * below - 1) * weight_x)[inside][:, None]
    if interpolation_mode != NEAREST:
        grid_grad[..., 0] = (grads * growth_x).sum(axis=1) * slope_x
        grid_grad[..., 1] = (grads * growth_y).sum(axis=1) * slope_y
    return input_grad, grid_grad


def _places(values: Array, size: int, padding_mode: int, align_corners: bool) -> tuple[Array, Array]:
    """Where points are along one axis, with cells at whole numbers, and the derivative of that by the values."""
    values = values.astype(np.float64)
    at = (values + 1) / 2 * (size - 1) if align_corners else ((values + 1) * size - 1) / 2
    slope = np.full(at.shape, (size - 1 if align_corners else size) / 2)
    with np.errstate(invalid="ignore"):
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
    """Products with weights for every row and every column: hats, or ones at the nearest."""
    weights = []
    for axis, size in ((1, input.shape[2]), (0, input.shape[3])):
        unit = grid[..., axis].astype(np.float64)
        at = (size - 1) * (unit + 1) / 2 if align_corners else size * (unit + 1) / 2 - 0.5
        if padding_mode == Padding.REFLECTION:
            low, span = (0.0, size - 1) if align_corners else (-0.5, size)
            at = low + span - np.abs(np.remainder(at - low, 2 * max(span, 1)) - span)
        if padding_mode != Padding.ZEROS:
            at = np.minimum(np.maximum(at, 0), size - 1)
        distance = np.abs((np.rint(at) if interpolation_mode == NEAREST else at)[..., None] - np.arange(size))
        weights.append(np.maximum(1 - distance, 0))
    sampled: Array = np.einsum("npqh,npqw,nchw->ncpq", *weights, input, optimize=True)
    return sampled
