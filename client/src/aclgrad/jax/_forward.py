"""The forward passes, over the last axes of tensors of PyTorch's layout (N, C, H, W).

The public ones return the output and what the operator takes after its gradient. Windows are tables of numpy: sizes are
known when a function is traced.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from aclgrad.masks import Pooling
from aclgrad.operators.upsample_nearest2d_backward.spec import nearest

Array = Any
Passed = tuple[Array, tuple[Array, ...]]

MODES = {"replicate": "edge", "reflect": "reflect"}
"""The modes of pad, as jax.numpy has them."""


def adaptive_avg_pool(sizes: tuple[int, ...], input: Array) -> Passed:
    pairs = zip(input.shape[-len(sizes) :], sizes, strict=True)
    return _average(input, [_adaptive_weights(*each) for each in pairs]), (input,)


def avg_pool2d(pooling: Pooling, include_pad: bool, divisor: int, input: Array) -> Passed:
    axes = zip(
        pooling.input_size, pooling.output_size, pooling.kernel_size, pooling.stride, pooling.padding, strict=True
    )
    weights = [_window_weights(*axis, include_pad) for axis in axes]
    if divisor:
        weights = [(each > 0) * 1.0 for each in weights]
        weights[0] = weights[0] / divisor
    return _average(input, weights), (input,)


def pad(padding: tuple[int, ...], mode: str, input: Array) -> Passed:
    axes = len(padding) // 2
    widths = [(padding[2 * each], padding[2 * each + 1]) for each in reversed(range(axes))]
    return jnp.pad(input, [(0, 0)] * (input.ndim - axes) + widths, MODES[mode]), (input,)


def interpolate(sizes: tuple[int, int], input: Array) -> Passed:
    rows, columns = (nearest(*each) for each in zip(sizes, input.shape[2:], strict=True))
    return input[:, :, rows[:, None], columns], ()


def _adaptive_weights(size: int, count: int) -> np.ndarray[Any, Any]:
    """Returns the weights (windows, cells) of adaptive average pooling along an axis."""
    weights = np.zeros((count, size))
    for window in range(count):
        cells = slice(window * size // count, -(-(window + 1) * size // count))
        weights[window, cells] = 1 / max(cells.stop - cells.start, 1)
    return weights


def _window_weights(size: int, count: int, kernel: int, stride: int, padding: int, include_pad: bool) -> Array:
    """Returns the weights (windows, cells) of average pooling along an axis."""
    weights = np.zeros((count, size))
    for window in range(count):
        start = window * stride - padding
        stop = min(start + kernel, size + padding)
        cells = slice(max(start, 0), min(stop, size))
        weights[window, cells] = 1 / max(stop - start if include_pad else cells.stop - cells.start, 1)
    return weights


def _average(input: Array, weights: Sequence[np.ndarray[Any, Any]]) -> Array:
    """Returns the weighted sums along the last axes, in float32 or wider."""
    wide = jnp.promote_types(input.dtype, jnp.float32)
    output = input.astype(wide)
    for axis, each in zip(range(input.ndim - len(weights), input.ndim), weights, strict=True):
        summed = jnp.tensordot(output, jnp.asarray(each, wide), (axis, 1), precision=jax.lax.Precision.HIGHEST)
        output = jnp.moveaxis(summed, -1, axis)
    return output.astype(input.dtype)


def max_pool2d(pooling: Pooling, input: Array) -> Passed:
    """Returns the maxima; their positions in the plane are those of the first of equal values."""
    height, width = pooling.input_size
    rows, columns = (
        np.arange(count)[:, None] * stride - padding + np.arange(kernel)
        for count, stride, padding, kernel in zip(
            pooling.output_size, pooling.stride, pooling.padding, pooling.kernel_size, strict=True
        )
    )
    y, x = rows[:, None, :, None], columns[None, :, None, :]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    cells = np.where(inside, y * width + x, 0).reshape(*pooling.output_size, -1)
    values = input.reshape(*input.shape[:-2], -1)[..., cells]
    chosen = jnp.where(inside.reshape(cells.shape), values, -jnp.inf).argmax(-1, keepdims=True)
    positions = jnp.take_along_axis(jnp.broadcast_to(cells, values.shape), chosen, -1)[..., 0]
    return jnp.take_along_axis(values, chosen, -1)[..., 0], (input, positions.astype(jnp.int32))


def max_unpool(output_size: tuple[int, ...], input: Array, indices: Array) -> Passed:
    """Returns zeros with the values at their positions in the flattened last axes."""
    leading = input.shape[: -len(output_size)]
    planes = int(np.prod(leading))
    zeros = jnp.zeros((planes, int(np.prod(output_size))), input.dtype)
    places = indices.reshape(planes, -1)
    filled = zeros.at[np.arange(planes)[:, None], places].set(input.reshape(planes, -1))
    return filled.reshape(*leading, *output_size), (input, indices)


def roi_align(
    pooled: tuple[int, int], spatial_scale: float, samples: int, aligned: bool, input: Array, boxes: Array
) -> Passed:
    """Returns the mean over the samples of every bin; boxes of images that do not exist give 0."""
    images, channels, *size = input.shape
    if 0 in (*input.shape, boxes.shape[0]):
        return jnp.zeros((boxes.shape[0], channels, *pooled), input.dtype), (boxes,)

    def pool(box: Array) -> Array:
        image = jnp.floor(box[0]).astype(int)
        x1, y1, x2, y2 = box[1:] * spatial_scale - (0.5 if aligned else 0.0)
        rows, columns = (
            _bin_weights(low, high, bins, cells, samples, aligned)
            for low, high, bins, cells in ((y1, y2, pooled[0], size[0]), (x1, x2, pooled[1], size[1]))
        )
        plane = input[jnp.clip(image, 0, images - 1)]
        bins = jnp.einsum("py,cyx,qx->cpq", rows, plane, columns, precision=jax.lax.Precision.HIGHEST)
        return jnp.where((image >= 0) & (image < images), bins, 0)

    return jax.lax.map(pool, boxes), (boxes,)


def _bin_weights(low: Array, high: Array, bins: int, size: int, samples: int, aligned: bool) -> Array:
    """Returns the weights (bins, cells) along an axis: means of the samples' hat functions."""
    extent = high - low if aligned else jnp.maximum(high - low, 1.0)
    points = low + (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / samples) * (extent / max(bins, 1))
    inside = (points >= -1) & (points <= size)
    distance = jnp.abs(jnp.clip(points, 0, size - 1)[..., None] - np.arange(size))
    return (jnp.maximum(0.0, 1.0 - distance) * inside[..., None]).mean(1)
