"""Windows over planes, and the gradient of their maxima."""

import math
from collections.abc import Sequence

import numpy as np

from aclgrad.masks import Pooling
from aclgrad.operators.definitions import Array, shape_of


def windows(planes: Array, pooling: Pooling, padding: float, beyond: float) -> Array:
    """Returns the cells of every window, shape (..., oH, oW, kH, kW).

    Cells in the padding have the one value, and cells beyond it, where ceil_mode may reach, the other.
    """
    near, far = [(0, 0)] * (planes.ndim - 2), [(0, 0)] * (planes.ndim - 2)
    for axis, (size, pad) in enumerate(zip(pooling.input_size, pooling.padding, strict=True)):
        end = (pooling.output_size[axis] - 1) * pooling.stride[axis] + pooling.span[axis]
        near.append((pad, pad))
        far.append((0, max(end - size - 2 * pad, 0)))
    padded = np.pad(np.pad(planes, near, constant_values=padding), far, constant_values=beyond)
    spans = np.lib.stride_tricks.sliding_window_view(padded, pooling.span, axis=(-2, -1))
    (down, across), (rows, columns) = pooling.stride, pooling.output_size
    cells: Array = spans[..., ::down, ::across, :: pooling.dilation[0], :: pooling.dilation[1]]
    return cells[..., :rows, :columns, :, :]


def maxima(input: Array, pooling: Pooling) -> Array:
    """Returns the maximum of every window; the padding is minus infinity."""
    pooled: Array = windows(input, pooling, -np.inf, -np.inf).max((-2, -1))
    return pooled


def scatter(grad_output: Array, input: Array | Sequence[int], indices: Array) -> Array:
    """Each pooled cell gives its gradient to the cell that its index names."""
    gradient = np.zeros(shape_of(input))
    *leading, rows, columns = gradient.shape
    planes = gradient.reshape(math.prod(leading), rows * columns)
    indices, given = (each.reshape(len(planes), math.prod(each.shape[-2:])) for each in (indices, grad_output))
    np.add.at(planes, (np.arange(len(planes))[:, None], indices), given.astype(np.float64))
    return gradient
