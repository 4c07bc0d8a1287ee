"""Max pooling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import MaskLayout, Pooling, argmax_of_mask
from aclgrad.operators.definitions import Array, shape_of


def backward(
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
    gradient = np.zeros(shape_of(input))
    height, width = gradient.shape[-2:]
    if indices.dtype == np.int8:
        pooling = Pooling.of((height, width), kernel_size, stride, padding, ceil_mode)
        indices = argmax_of_mask(indices, pooling, MaskLayout.INT32_PREFIX)
    for pooled in np.ndindex(*grad_output.shape):
        row, column = divmod(int(indices[pooled]), width)
        gradient[(*pooled[:-2], row, column)] += np.float64(grad_output[pooled])
    return gradient


def forward(
    grad_output: Array,
    input: Array,
    indices: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Array:
    """The maximum over windows of a plane padded with minus infinity."""
    pooling = Pooling.of(input.shape[-2:], kernel_size, stride, padding, ceil_mode)
    outer, (rows, columns) = [(0, 0)] * (input.ndim - 2), grad_output.shape[-2:]
    for axis, count in enumerate((rows, columns)):
        near, size = pooling.padding[axis], input.shape[axis - 2]
        far = (count - 1) * pooling.stride[axis] + pooling.kernel_size[axis] - near - size
        outer.append((near, max(far, 0)))
    padded = np.pad(input, outer, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, pooling.kernel_size, axis=(-2, -1))
    maxima: Array = windows[..., :: pooling.stride[0], :: pooling.stride[1], :, :].max((-2, -1))
    return maxima[..., :rows, :columns]
