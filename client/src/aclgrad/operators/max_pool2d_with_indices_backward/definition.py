"""Max pooling in two dimensions and its gradient, given the argmax."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import pair
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
    """Each pooled cell gives its gradient to the cell that its index names; the windows make no difference."""
    gradient = np.zeros(shape_of(input))
    width = gradient.shape[-1]
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
    """The maximum over every window, cell by cell of the kernel; padding is minus infinity."""
    kernel, steps, pads, between = (pair(each) for each in (kernel_size, stride or kernel_size, padding, dilation))
    maxima = np.full(grad_output.shape, -np.inf)
    for cell in np.ndindex(*kernel):
        places = [
            np.arange(count) * step - pad + offset * apart
            for count, step, pad, offset, apart in zip(maxima.shape[-2:], steps, pads, cell, between, strict=True)
        ]
        inside = [(at >= 0) & (at < size) for at, size in zip(places, input.shape[-2:], strict=True)]
        rows, columns = (np.clip(at, 0, size - 1) for at, size in zip(places, input.shape[-2:], strict=True))
        values = np.where(inside[0][:, None] & inside[1], input[..., rows[:, None], columns], -np.inf)
        maxima = np.maximum(maxima, values)
    return maxima
