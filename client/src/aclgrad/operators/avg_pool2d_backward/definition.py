"""Average pooling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import Pooling, pair
from aclgrad.operators.definitions import Array, shape_of
from aclgrad.operators.families.pooling2d.definition import windows


def backward(
    grad_output: Array,
    input: Array | Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    cube_math_type: int = 0,
) -> Array:
    """Each cell of a window receives the window's gradient divided by its divisor."""
    gradient = np.zeros(shape_of(input))
    (height, width), kernel = gradient.shape[-2:], pair(kernel_size)
    steps, pads = pair(stride or kernel_size), pair(padding)
    for i, j in np.ndindex(*grad_output.shape[-2:]):
        top, left = i * steps[0] - pads[0], j * steps[1] - pads[1]
        bottom, right = min(top + kernel[0], height + pads[0]), min(left + kernel[1], width + pads[1])
        window = gradient[..., max(top, 0) : bottom, max(left, 0) : right]
        cells = (bottom - top) * (right - left) if count_include_pad else window.shape[-2] * window.shape[-1]
        window += (grad_output[..., i, j].astype(np.float64) / (divisor_override or cells))[..., None, None]
    return gradient


def forward(
    grad_output: Array,
    input: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    cube_math_type: int = 0,
) -> Array:
    """The sum of every window over the sum of the same window on a plane of ones."""
    pooling = Pooling.of(input.shape[-2:], kernel_size, stride, padding, ceil_mode)
    ones = np.ones(pooling.input_size)
    sums = windows(input, pooling, padding=0, beyond=0).sum((-2, -1))
    counts = windows(ones, pooling, padding=float(count_include_pad), beyond=0).sum((-2, -1))
    pooled: Array = sums / (divisor_override or counts)
    return pooled
