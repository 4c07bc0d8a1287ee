"""The forward functions that the operators are the gradients of, in float64, each written in another way than its
gradient's definition."""

from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def adaptive_avg_pool2d(input: Array, rows: int, columns: int) -> Array:
    """The mean of every window; an empty window has the mean 0."""

    def windows(size: int, count: int) -> list[slice]:
        edges = np.arange(count + 1) * size / max(count, 1)
        return [slice(int(np.floor(low)), int(np.ceil(high))) for low, high in pairwise(edges)]

    pooled = np.zeros((*input.shape[:-2], rows, columns))
    for i, tall in enumerate(windows(input.shape[-2], rows)):
        for j, wide in enumerate(windows(input.shape[-1], columns)):
            window = input[..., tall, wide]
            if window.shape[-1] * window.shape[-2]:
                pooled[..., i, j] = window.mean(axis=(-2, -1))
    return pooled


def max_unpool3d(input: Array, indices: Array, output_size: tuple[int, ...]) -> Array:
    """Every value added at its index: where indices repeat, a gradient of the sum is what the gather computes."""
    leading = input.shape[:-3]
    flat = np.zeros((*leading, int(np.prod(output_size))))
    for plane in np.ndindex(*leading):
        np.add.at(flat[plane], indices[plane].reshape(-1), input[plane].reshape(-1))
    return flat.reshape(*leading, *output_size)


def replication_pad2d(input: Array, padding: tuple[int, ...]) -> Array:
    """numpy's edge padding, then a crop for what is negative."""
    left, right, top, bottom = padding
    outer = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))]
    padded = np.pad(input, [(0, 0)] * (input.ndim - 2) + outer, mode="edge")
    height, width = padded.shape[-2:]
    rows = slice(max(-top, 0), height - max(-bottom, 0))
    return padded[..., rows, slice(max(-left, 0), width - max(-right, 0))]


def max_pool2d(
    input: Array,
    kernel_size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    output_size: tuple[int, int],
) -> Array:
    """The maximum over windows of a plane padded with minus infinity."""
    far = [
        max((n - 1) * s + k - p - size, 0)
        for n, s, k, p, size in zip(output_size, stride, kernel_size, padding, input.shape[-2:], strict=True)
    ]
    outer = [(0, 0)] * (input.ndim - 2) + [(padding[0], far[0]), (padding[1], far[1])]
    padded = np.pad(input, outer, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel_size, axis=(-2, -1))
    return windows[..., :: stride[0], :: stride[1], :, :][..., : output_size[0], : output_size[1], :, :].max((-2, -1))


def roi_align(
    input: Array,
    boxes: Array,
    pooled: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Array:
    """The mean over sampling points of the bilinear interpolation, all points of a box at once."""
    images, channels, height, width = input.shape
    output = np.zeros((len(boxes), channels, *pooled))
    for index, (image, *corners) in enumerate(boxes.astype(np.float64)):
        if not 0 <= np.floor(image) < images:
            continue
        x1, y1, x2, y2 = np.array(corners) * np.float64(np.float32(spatial_scale)) - (0.5 if aligned else 0.0)
        points = [
            _points(low, high, bins, sampling_ratio, aligned)
            for low, high, bins in ((y1, y2, pooled[0]), (x1, x2, pooled[1]))
        ]
        if not all(each.size for each in points):
            continue
        weights = [_weights(each.reshape(-1), size) for each, size in zip(points, (height, width), strict=True)]
        sampled = np.einsum("py,cyx,qx->cpq", weights[0], input[int(np.floor(image))], weights[1])
        grid = (points[0].shape[1], points[1].shape[1])
        output[index] = sampled.reshape(channels, pooled[0], grid[0], pooled[1], grid[1]).mean(axis=(2, 4))
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
