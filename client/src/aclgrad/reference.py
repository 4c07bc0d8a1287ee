"""The definition of each operator in float64 numpy (complex128 for complex), under its wire name: slow and plain.

Each takes the inputs by wire name (for a shape-only input an array or its shape) and the attributes, and returns the
gradient in float64. What the formulas are is told by the operator's spec; these functions are written from them
cell by cell, so that they share no shortcut with any kernel.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aclgrad.masks import MaskLayout, Pooling, argmax_of_mask
from aclgrad.wire.messages import AttributeValue

Array = np.ndarray[Any, Any]


def define(
    operator: str, inputs: Mapping[str, Array | Sequence[int]], attributes: Mapping[str, AttributeValue]
) -> Array:
    """Returns the gradient that the operator's definition gives."""
    definition = globals()[operator]
    renamed = {"input" if name == "self" else name: value for name, value in inputs.items()}
    gradient: Array = definition(**renamed, **attributes)
    return gradient


def adaptive_avg_pool2d_backward(grad_output: Array, input: Array | Sequence[int]) -> Array:
    """Each cell of a window receives the window's gradient divided by the number of its cells."""
    gradient = np.zeros(_shape(input))
    height, width = gradient.shape[-2:]
    rows, columns = grad_output.shape[-2:]
    for i in range(rows):
        top, bottom = i * height // rows, -(-(i + 1) * height // rows)
        for j in range(columns):
            left, right = j * width // columns, -(-(j + 1) * width // columns)
            count = (bottom - top) * (right - left)
            if count:
                share = grad_output[..., i, j].astype(np.float64) / count
                gradient[..., top:bottom, left:right] += share[..., None, None]
    return gradient


def _shape(input: Array | Sequence[int]) -> tuple[int, ...]:
    return tuple(input.shape if isinstance(input, np.ndarray) else input)


def max_unpool3d_backward(
    grad_output: Array,
    input: Array | Sequence[int],
    indices: Array,
    output_size: Sequence[int],
    stride: Sequence[int] = (1, 1, 1),
    padding: Sequence[int] = (0, 0, 0),
) -> Array:
    """Each cell takes the gradient of the cell that it was written to."""
    leading = indices.shape[:-3]
    gradient = np.zeros(_shape(input), grad_output.dtype)
    for plane in np.ndindex(*leading):
        flat = grad_output[plane].reshape(-1)
        for cell in np.ndindex(*indices.shape[-3:]):
            gradient[plane + cell] = flat[indices[plane + cell]]
    return gradient


def replication_pad2d_backward(grad_output: Array, input: Array | Sequence[int], padding: Sequence[int]) -> Array:
    """Each padded cell gives its gradient to the cell at its position, clamped into the plane."""
    left, _, top, _ = padding
    shape = _shape(input)
    gradient = np.zeros(shape, _wide(grad_output))
    height, width = shape[-2:]
    for y in range(grad_output.shape[-2]):
        for x in range(grad_output.shape[-1]):
            row, column = min(max(y - top, 0), height - 1), min(max(x - left, 0), width - 1)
            gradient[..., row, column] += grad_output[..., y, x].astype(gradient.dtype)
    return gradient


def max_pool2d_with_mask_backward(
    grad_output: Array,
    input: Array | Sequence[int],
    indices: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Array:
    """Each pooled cell gives its gradient to the cell that it was taken from; an int8 mask holds an INT32 prefix."""
    gradient = np.zeros(_shape(input))
    height, width = gradient.shape[-2:]
    if indices.dtype == np.int8:
        pooling = Pooling.of((height, width), kernel_size, stride, padding, ceil_mode)
        indices = argmax_of_mask(indices, pooling, MaskLayout.INT32_PREFIX)
    for pooled in np.ndindex(*grad_output.shape):
        row, column = divmod(int(indices[pooled]), width)
        gradient[(*pooled[:-2], row, column)] += np.float64(grad_output[pooled])
    return gradient


def roi_align_v2_backward(
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


def _wide(array: Array) -> type[np.float64] | type[np.complex128]:
    return np.complex128 if np.iscomplexobj(array) else np.float64
