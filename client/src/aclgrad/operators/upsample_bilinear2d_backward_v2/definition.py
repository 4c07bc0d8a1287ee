"""Bilinear upsampling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array

_HALF = np.float32(0.5)


def neighbours(output: int, input: int, align_corners: bool) -> tuple[Array, Array, Array]:
    """Returns the two cells around each output, and the weight of the second, by PyTorch's rule in float32."""
    outputs = np.arange(output, dtype=np.float32)
    if align_corners:
        places = outputs * np.float32((input - 1) / (output - 1) if output > 1 else 0)
    else:
        places = np.maximum((outputs + _HALF) * np.float32(input / output) - _HALF, 0)
    first = np.minimum(places.astype(np.int64), input - 1)
    return first, np.minimum(first + 1, input - 1), np.clip(places - first, 0, 1).astype(np.float64)


def _gather(gradient: Array, axis: int, size: int, align_corners: bool) -> Array:
    """Adds up along one axis."""
    first, second, weight = neighbours(gradient.shape[axis], size, align_corners)
    moved = np.moveaxis(gradient, axis, 0)
    found = np.zeros((size, *moved.shape[1:]))
    shaped = weight.reshape(-1, 1, 1, 1)
    np.add.at(found, first, moved * (1 - shaped))
    np.add.at(found, second, moved * shaped)
    return np.moveaxis(found, 0, axis)


def backward(
    grad_output: Array,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool = False,
    scales_h: float = 0.0,
    scales_w: float = 0.0,
) -> Array:
    """One axis after the other; legal scales make no difference."""
    rows = _gather(grad_output.astype(np.float64), 2, input_size[2], align_corners)
    return _gather(rows, 3, input_size[3], align_corners)


def forward(
    grad_output: Array,
    input: Array,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool = False,
    scales_h: float = 0.0,
    scales_w: float = 0.0,
) -> Array:
    """Takes the four cells of each output at once."""
    top, bottom, y = neighbours(output_size[0], input_size[2], align_corners)
    left, right, x = neighbours(output_size[1], input_size[3], align_corners)
    corners = (
        (input[:, :, row[:, None], column], np.outer(of_row, of_column))
        for row, of_row in ((top, 1 - y), (bottom, y))
        for column, of_column in ((left, 1 - x), (right, x))
    )
    return np.asarray(sum(cells * weight for cells, weight in corners))
