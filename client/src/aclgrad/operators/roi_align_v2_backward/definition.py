"""RoI align and its gradient."""

import math
from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array


def backward(
    grad_output: Array,
    boxes: Array,
    input_shape: Sequence[int],
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
) -> Array:
    """Each sample of a bin gives its share of the bin's gradient to its four neighbours."""
    gradient = np.zeros(tuple(input_shape))
    images, _, height, width = gradient.shape
    offset = 0.5 if aligned else 0.0
    for index, box in enumerate(boxes.astype(np.float64)):
        image = math.floor(box[0])
        if not 0 <= image < images:
            continue
        left, top, right, bottom = box[1:] * np.float64(np.float32(spatial_scale)) - offset
        size = (bottom - top, right - left) if aligned else (max(bottom - top, 1.0), max(right - left, 1.0))
        bins = (size[0] / max(pooled_height, 1), size[1] / max(pooled_width, 1))
        grid = [sampling_ratio or max(math.ceil(each), 0) for each in bins]
        share = grad_output[index].astype(np.float64) / max(grid[0] * grid[1], 1)
        for row, column, iy, ix in np.ndindex(pooled_height, pooled_width, *grid):
            y = top + (row + (iy + 0.5) / grid[0]) * bins[0]
            x = left + (column + (ix + 0.5) / grid[1]) * bins[1]
            if not (-1 <= y <= height and -1 <= x <= width):
                continue
            for cell_y, weight_y in _neighbours(y, height):
                for cell_x, weight_x in _neighbours(x, width):
                    gradient[image, :, cell_y, cell_x] += share[:, row, column] * weight_y * weight_x
    return gradient


def _neighbours(position: float, size: int) -> tuple[tuple[int, float], tuple[int, float]]:
    """Returns the two cells around a position along one axis, with their weights; beyond an edge the edge counts."""
    position = max(position, 0.0)
    low = int(position)
    if low >= size - 1:
        return (size - 1, 1.0), (size - 1, 0.0)
    return (low, 1.0 - (position - low)), (low + 1, position - low)


def forward(
    input: Array,
    grad_output: Array,
    boxes: Array,
    input_shape: Sequence[int],
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
) -> Array:
    """The pooled boxes alone."""
    return value(input, boxes, pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned)


def value(
    input: Array,
    boxes: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
) -> Array:
    """The mean over sampling points of the bilinear interpolation, all points of a box at once."""
    images, channels, height, width = input.shape
    output = np.zeros((len(boxes), channels, pooled_height, pooled_width))
    for index, (image, *corners) in enumerate(boxes.astype(np.float64)):
        if not 0 <= np.floor(image) < images:
            continue
        x1, y1, x2, y2 = np.array(corners) * np.float64(np.float32(spatial_scale)) - (0.5 if aligned else 0.0)
        points = [
            _points(low, high, bins, sampling_ratio, aligned)
            for low, high, bins in ((y1, y2, pooled_height), (x1, x2, pooled_width))
        ]
        if not all(each.size for each in points):
            continue
        weights = [_weights(each.reshape(-1), size) for each, size in zip(points, (height, width), strict=True)]
        sampled = np.einsum("py,cyx,qx->cpq", weights[0], input[int(np.floor(image))], weights[1])
        grid = (points[0].shape[1], points[1].shape[1])
        output[index] = sampled.reshape(channels, pooled_height, grid[0], pooled_width, grid[1]).mean(axis=(2, 4))
    return output


def _points(low: float, high: float, bins: int, sampling_ratio: int, aligned: bool) -> Array:
    """The sampling points along one axis, of shape (bins, samples)."""
    size = high - low if aligned else max(high - low, 1.0)
    samples = sampling_ratio or max(int(np.ceil(size / max(bins, 1))), 0)
    return low + (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / max(samples, 1)) * (size / max(bins, 1))


def _weights(points: Array, size: int) -> Array:
    """The hat functions of the cells at each point: linear between cells, constant beyond the outer ones up to -1 and
    the size, and nothing farther out."""
    inside = (points >= -1) & (points <= size)
    clamped = np.clip(points, 0, size - 1)
    hats = np.maximum(0.0, 1.0 - np.abs(clamped[:, None] - np.arange(size)))
    return hats * inside[:, None]
