"""Max pooling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import MaskLayout, Pooling, argmax_of_mask
from aclgrad.operators.definitions import Array, shape_of
from aclgrad.operators.families.pooling2d.definition import maxima, scatter


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
    if indices.dtype == np.int8:
        pooling = Pooling.of(shape_of(input)[-2:], kernel_size, stride, padding, ceil_mode)
        indices = argmax_of_mask(indices, pooling, MaskLayout.INT32_PREFIX)
    return scatter(grad_output, input, indices)


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
    """The maximum of every window."""
    return maxima(input, Pooling.of(input.shape[-2:], kernel_size, stride, padding, ceil_mode))
