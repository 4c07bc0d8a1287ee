"""Average pooling in two dimensions and its gradient."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import pair
from aclgrad.operators.definitions import Array, shape_of


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
    """The sum of every window, cell by cell of the kernel, over the sum of a plane of ones that counts as asked."""
    ones = np.ones(input.shape[-2:])
    pads = pair(padding)
    counted = np.pad(ones, [(pads[0],) * 2, (pads[1],) * 2], constant_values=float(count_include_pad))
    padded = np.pad(input, [(0, 0)] * (input.ndim - 2) + [(pads[0],) * 2, (pads[1],) * 2])
    sums, counts = (
        _window_sums(array, grad_output.shape[-2:], pair(kernel_size), pair(stride or kernel_size))
        for array in (padded, counted)
    )
    return sums / (divisor_override or counts)


def _window_sums(array: Array, size: tuple[int, ...], kernel: tuple[int, int], steps: tuple[int, int]) -> Array:
    # Beyond the padding, where ceil_mode may reach, there is nothing.
    ends = [(count - 1) * step + cells for count, step, cells in zip(size, steps, kernel, strict=True)]
    need = [max(end - have, 0) for end, have in zip(ends, array.shape[-2:], strict=True)]
    whole = np.pad(array, [(0, 0)] * (array.ndim - 2) + [(0, more) for more in need])
    windows = np.lib.stride_tricks.sliding_window_view(whole, kernel, axis=(-2, -1))
    sums: Array = windows[..., :: steps[0], :: steps[1], :, :].sum((-2, -1))
    return sums[..., : size[0], : size[1]]
