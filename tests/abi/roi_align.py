"""The gradient of RoiAlign by definition: coordinates in float32, as the operator has them, and sums in float64."""

import math
from dataclasses import dataclass

import numpy as np

F = np.float32


@dataclass(frozen=True)
class Roi:
    """The attributes of the operator; input_shape is (B, C, H, W)."""

    input_shape: tuple[int, int, int, int]
    pooled: tuple[int, int]
    spatial_scale: float = 1.0
    sampling_ratio: int = 0
    aligned: bool = False


def axis(low: np.float32, high: np.float32, bins: int, roi: Roi) -> tuple[np.float32, np.float32, int]:
    """The start, the size of a bin and its samples."""
    offset = F(0.5 if roi.aligned else 0)
    start = F(low * F(roi.spatial_scale)) - offset
    size = F(high * F(roi.spatial_scale)) - offset - start
    if not roi.aligned:
        size = max(size, F(1))
    bin_size = size / F(bins)
    return start, bin_size, roi.sampling_ratio or max(math.ceil(bin_size), 0)


def samples(start: np.float32, bin_size: np.float32, count: int, index: int) -> list[np.float32]:
    return [start + F(index) * bin_size + (F(i) + F(0.5)) * bin_size / F(count) for i in range(count)]


def neighbours(position: np.float32, size: int) -> list[tuple[int, float]]:
    """The cells that a sample takes from and their weights; none if it lies beside the input."""
    if position < -1 or position > size:
        return []
    position = max(position, F(0))
    low = int(position)
    if low >= size - 1:
        return [(size - 1, 1.0)]
    return [(low, 1 - float(position - F(low))), (low + 1, float(position - F(low)))]


def matrix(low: np.float32, high: np.float32, bins: int, size: int, roi: Roi) -> tuple[np.ndarray, int]:
    """What each bin takes from each cell along one axis, shape (size, bins), and the samples of a bin."""
    start, bin_size, count = axis(low, high, bins, roi)
    weights = np.zeros((size, bins))
    for index in range(bins):
        for position in samples(start, bin_size, count, index):
            for cell, weight in neighbours(position, size):
                weights[cell, index] += weight
    return weights, count


def gradient(roi: Roi, grad: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the gradient for finite boxes, and the same with absolute values: two matrix products a box."""
    result, scale = np.zeros(roi.input_shape), np.zeros(roi.input_shape)
    _, _, height, width = roi.input_shape
    for index, (image, x1, y1, x2, y2) in enumerate(boxes):
        if not 0 <= np.floor(image) < roi.input_shape[0]:
            continue
        rows, row_samples = matrix(y1, y2, roi.pooled[0], height, roi)
        columns, column_samples = matrix(x1, x2, roi.pooled[1], width, roi)
        share = grad[index].astype(np.float64) / max(row_samples * column_samples, 1)
        result[int(np.floor(image))] += rows @ share @ columns.T
        scale[int(np.floor(image))] += rows @ abs(share) @ columns.T
    return result, scale
