"""The forward passes, over the last axes of tensors of PyTorch's layout (N, C, H, W).

The public ones are linear in the input. Windows are tables of numpy: sizes are known when a function is traced.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad.masks import Pooling
from aclgrad.operators.upsample_nearest2d_backward.spec import nearest

Sizes = tuple[int, ...]
Table = np.ndarray[Any, Any]


def adaptive_avg_pool(input: Array, *, output_size: tuple[int | None, ...]) -> Array:
    pairs = zip(input.shape[-len(output_size) :], output_size, strict=True)
    return _average(input, [_adaptive_weights(size, size if count is None else count) for size, count in pairs])


def avg_pool2d(input: Array, *, count_include_pad: bool, divisor_override: int, **window: Any) -> Array:
    pooling = Pooling.of(input.shape[-2:], **window)
    weights = [_window_weights(*axis, count_include_pad) for axis in _axes(pooling)]
    if divisor_override:
        weights = [(each > 0) * 1.0 for each in weights]
        weights[0] = weights[0] / divisor_override
    return _average(input, weights)


def pad(input: Array, *, padding: Sizes, mode: str) -> Array:
    """Returns copies of the cells: those at the edges, or mirrored ones. Negative padding crops."""
    for each in range(len(padding) // 2):
        before, after = padding[2 * each : 2 * each + 2]
        axis = input.ndim - 1 - each
        last = input.shape[axis] - 1
        cells = np.arange(-before, input.shape[axis] + after)
        if mode == "reflect":
            cells = last - np.abs(last - np.abs(cells))
        input = jnp.take(input, np.clip(cells, 0, last), axis)
    return input


def interpolate(input: Array, *, output_size: Sizes) -> Array:
    rows, columns = (nearest(*each) for each in zip(output_size, input.shape[-2:], strict=True))
    return input[..., rows[:, None], columns]


def _axes(pooling: Pooling) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields the cells and the windows of an axis, with kernel, stride and padding; no windows if none fits."""
    counts = (max(each, 0) for each in pooling.output_size)
    yield from zip(pooling.input_size, counts, pooling.kernel_size, pooling.stride, pooling.padding, strict=True)


def _adaptive_weights(size: int, count: int) -> Table:
    """Returns the weights (windows, cells) of adaptive average pooling along an axis."""
    weights = np.zeros((count, size))
    for window in range(count):
        cells = slice(window * size // count, -(-(window + 1) * size // count))
        weights[window, cells] = 1 / max(cells.stop - cells.start, 1)
    return weights


def _window_weights(size: int, count: int, kernel: int, stride: int, padding: int, include_pad: bool) -> Table:
    """Returns the weights (windows, cells) of average pooling along an axis."""
    weights = np.zeros((count, size))
    for window in range(count):
        start = window * stride - padding
        stop = min(start + kernel, size + padding)
        cells = slice(max(start, 0), min(stop, size))
        weights[window, cells] = 1 / max(stop - start if include_pad else cells.stop - cells.start, 1)
    return weights


def _average(input: Array, weights: Sequence[Table]) -> Array:
    """Returns the weighted sums along the last axes, in float32 or wider."""
    wide = jnp.promote_types(input.dtype, jnp.float32)
    output = input.astype(wide)
    for axis, each in zip(range(input.ndim - len(weights), input.ndim), weights, strict=True):
        summed = jnp.tensordot(output, jnp.asarray(each, wide), (axis, 1), precision=jax.lax.Precision.HIGHEST)
        output = jnp.moveaxis(summed, -1, axis)
    return output.astype(input.dtype)


def max_positions(input: Array, **window: Any) -> Array:
    """Returns where the maxima are in the plane: the first of equal values wins."""
    rows, columns = (
        # Padding repeats the edge, whose cells are in the same window.
        np.clip(np.arange(count)[:, None] * stride - padding + np.arange(kernel), 0, size - 1)
        for size, count, kernel, stride, padding in _axes(Pooling.of(input.shape[-2:], **window))
    )
    cells = rows[:, None, :, None] * input.shape[-1] + columns[None, :, None, :]
    cells = cells.reshape(len(rows), len(columns), rows.shape[1] * columns.shape[1])
    chosen = _planes(input, 2)[..., cells].argmax(-1, keepdims=True)
    return jnp.take_along_axis(jnp.broadcast_to(cells, (*input.shape[:-2], *cells.shape)), chosen, -1)[..., 0]


def take_positions(input: Array, positions: Array, **_: Any) -> Array:
    """Returns the cells at these positions of the plane."""
    return jnp.take_along_axis(_planes(input, 2), _planes(positions, 2), -1).reshape(positions.shape)


def max_unpool(input: Array, indices: Array, *, output_size: Sizes) -> Array:
    """Returns zeros with the values at their positions in the flattened last axes."""
    leading = input.shape[: -len(output_size)]
    planes = math.prod(leading)
    values, targets = (each.reshape(planes, math.prod(input.shape[-len(output_size) :])) for each in (input, indices))
    zeros = jnp.zeros((planes, math.prod(output_size)), input.dtype)
    return zeros.at[np.arange(planes)[:, None], targets].set(values).reshape(*leading, *output_size)


def _planes(array: Array, axes: int) -> Array:
    """Returns the array with its last axes as one."""
    leading = array.shape[:-axes]
    return array.reshape(*leading, math.prod(array.shape[-axes:]))


def roi_align(
    input: Array,
    boxes: Array,
    *,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Array:
    """Returns the mean over the samples of every bin; boxes of images that do not exist give 0."""
    images, channels, *size = input.shape
    pooled = pooled_height, pooled_width
    if 0 in (images, boxes.shape[0], *pooled):
        return jnp.zeros((boxes.shape[0], channels, *pooled), input.dtype)

    def pool(box: Array) -> Array:
        image = jnp.floor(box[0]).astype(int)
        x1, y1, x2, y2 = box[1:] * spatial_scale - (0.5 if aligned else 0.0)
        rows, columns = (
            _bin_weights(low, high, bins, cells, sampling_ratio, aligned)
            for low, high, bins, cells in ((y1, y2, pooled[0], size[0]), (x1, x2, pooled[1], size[1]))
        )
        plane = input[jnp.clip(image, 0, images - 1)]
        bins = jnp.einsum("py,cyx,qx->cpq", rows, plane, columns, precision=jax.lax.Precision.HIGHEST)
        return jnp.where((image >= 0) & (image < images), bins, 0)

    return jax.lax.map(pool, boxes)


def _bin_weights(low: Array, high: Array, bins: int, size: int, samples: int, aligned: bool) -> Array:
    """Returns the weights (bins, cells) along an axis: means of the samples' hat functions."""
    extent = high - low if aligned else jnp.maximum(high - low, 1.0)
    points = low + (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / samples) * (extent / bins)
    inside = (points >= -1) & (points <= size)
    distance = jnp.abs(jnp.clip(points, 0, size - 1)[..., None] - np.arange(size))
    return (jnp.maximum(0.0, 1.0 - distance) * inside[..., None]).mean(1)
