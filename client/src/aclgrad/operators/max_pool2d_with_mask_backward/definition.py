"""Max pooling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import Pooling, argmax_of_mask, mask_layout
from aclgrad.operators.definitions import Array, shape_of
from aclgrad.operators.families.pooling2d.definition import maxima, scatter
from aclgrad.products import Product


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
    """Each pooled cell gives its gradient to the cell that it was taken from; an int8 mask is that of Atlas A2."""
    if indices.dtype == np.int8:
        pooling = Pooling.of(shape_of(input)[-2:], kernel_size, stride, padding, ceil_mode)
        indices = argmax_of_mask(indices, pooling, mask_layout(Product.ATLAS_A2, pooling.kernel_size))
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
