"""Forward passes over the last axes of tensors in PyTorch's layout (N, C, H, W).

All but `grid_sample` are linear in the input. Windows are tables of numpy: sizes are known when a function is traced.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from jax.scipy.ndimage import map_coordinates

from aclgrad.masks import Pooling
from aclgrad.operators.families.grid_sampler.spec import NEAREST, Padding
from aclgrad.operators.upsample_nearest2d_backward.spec import nearest

Sizes = tuple[int, ...]
Window = tuple[int, int, int]
"""The first cell along an axis, the one after the last, and the divisor of their sum."""


def adaptive_avg_pool(input: Array, *, output_size: tuple[int | None, ...]) -> Array:
    def windows(size: int, count: int) -> Iterator[Window]:
        for each in range(count):
            start, stop = each * size // count, -(-(each + 1) * size // count)
            yield start, stop, stop - start

    pairs = zip(input.shape[-len(output_size) :], output_size, strict=True)
    return _average(input, [windows(size, size if count is None else count) for size, count in pairs])


def avg_pool2d(input: Array, *, count_include_pad: bool, divisor_override: int, **window: Any) -> Array:
    def windows(size: int, count: int, kernel: int, stride: int, padding: int, divisor: int) -> Iterator[Window]:
        for start in range(-padding, count * stride - padding, stride):
            stop = min(start + kernel, size + padding)
            cells = max(start, 0), min(stop, size)
            yield *cells, divisor or (stop - start if count_include_pad else cells[1] - cells[0])

    pairs = zip(_axes(Pooling.of(input.shape[-2:], **window)), (divisor_override, bool(divisor_override)), strict=True)
    return _average(input, [windows(*axis, divisor) for axis, divisor in pairs])


def _average(input: Array, axes: Sequence[Iterable[Window]]) -> Array:
    """Returns the sums of the cells of windows along the last axes, divided by their counts, in float32 or wider."""
    tables = []
    for size, windows in zip(input.shape[-len(axes) :], map(list, axes), strict=True):
        tables.append(np.zeros((len(windows), size)))
        for row, (start, stop, count) in zip(tables[-1], windows, strict=True):
            row[start:stop] = 1 / max(count, 1)
    return _weighted(input, tables)


def _weighted(input: Array, tables: Sequence[np.ndarray[Any, Any]]) -> Array:
    """Returns the sums along the last axes, weighted by a table for each axis, in float32 or wider."""
    wide = jnp.promote_types(input.dtype, jnp.float32)
    output = input.astype(wide)
    for axis, weights in enumerate(tables, input.ndim - len(tables)):
        summed = jnp.tensordot(output, jnp.asarray(weights, wide), (axis, 1), precision=jax.lax.Precision.HIGHEST)
        output = jnp.moveaxis(summed, -1, axis)
    return output.astype(input.dtype)


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


def interpolate_bilinear(input: Array, *, output_size: Sizes, align_corners: bool) -> Array:
    pairs = zip(output_size, input.shape[-2:], strict=True)
    return _weighted(input, [_between(count, size, align_corners) for count, size in pairs])


def _between(count: int, size: int, align_corners: bool) -> np.ndarray[Any, Any]:
    """Returns the weights of the cells beside each of `count` points along an axis of this size."""
    places = np.arange(count)
    at = places * ((size - 1) / max(count - 1, 1)) if align_corners else (places + 0.5) * size / count - 0.5
    distances = np.abs(np.clip(at, 0, size - 1)[:, None] - np.arange(size))
    weights: np.ndarray[Any, Any] = np.maximum(1 - distances, 0)
    return weights


def _axes(pooling: Pooling) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields the cells and the windows of an axis for a kernel, stride and padding; no windows if none fits."""
    counts = (max(each, 0) for each in pooling.output_size)
    yield from zip(pooling.input_size, counts, pooling.kernel_size, pooling.stride, pooling.padding, strict=True)


def max_pool2d(input: Array, **window: Any) -> tuple[Array, Array]:
    """Returns the maxima and their positions in the plane; the first of equal values wins."""
    rows, columns = (
        # Padding repeats edge cells, which are in the same window.
        np.clip(np.arange(count)[:, None] * stride - padding + np.arange(kernel), 0, size - 1)
        for size, count, kernel, stride, padding in _axes(Pooling.of(input.shape[-2:], **window))
    )
    cells = rows[:, None, :, None] * input.shape[-1] + columns[None, :, None, :]
    cells = cells.reshape(len(rows), len(columns), rows.shape[1] * columns.shape[1])
    chosen = _planes(input)[..., cells].argmax(-1, keepdims=True)
    positions = jnp.take_along_axis(jnp.broadcast_to(cells, (*input.shape[:-2], *cells.shape)), chosen, -1)[..., 0]
    return take_positions(input, indices=positions), positions


def take_positions(values: Array, *, indices: Array, **_: Any) -> Array:
    """Returns the values at these positions of the plane."""
    return jnp.take_along_axis(_planes(values), _planes(indices), -1).reshape(indices.shape)


def max_unpool(input: Array, indices: Array, *, output_size: Sizes) -> Array:
    """Returns zeros with the values at their positions in the flattened last axes."""
    leading = input.shape[: -len(output_size)]
    planes = math.prod(leading)
    values, targets = (each.reshape(planes, math.prod(input.shape[-len(output_size) :])) for each in (input, indices))
    zeros = jnp.zeros((planes, math.prod(output_size)), input.dtype)
    return zeros.at[np.arange(planes)[:, None], targets].set(values).reshape(*leading, *output_size)


def _planes(array: Array) -> Array:
    """Returns the array with its last two axes joined."""
    return array.reshape(*array.shape[:-2], math.prod(array.shape[-2:]))


def roi_align(
    input: Array, boxes: Array, *, pooled_height: int, pooled_width: int, spatial_scale: float, **samples: Any
) -> Array:
    """Returns the mean over the samples of every bin; boxes of images that do not exist give 0."""
    (images, channels, height, width), count = input.shape, boxes.shape[0]
    if 0 in (images, count, pooled_height, pooled_width):
        return jnp.zeros((count, channels, pooled_height, pooled_width), input.dtype)

    def pool(box: Array) -> Array:
        image = jnp.floor(box[0]).astype(int)
        x1, y1, x2, y2 = box[1:] * spatial_scale
        rows = _bin_weights(y1, y2, pooled_height, height, **samples)
        columns = _bin_weights(x1, x2, pooled_width, width, **samples)
        plane = input[jnp.clip(image, 0, images - 1)]
        bins = jnp.einsum("py,cyx,qx->cpq", rows, plane, columns, precision=jax.lax.Precision.HIGHEST)
        return jnp.where((image >= 0) & (image < images), bins, 0)

    return jax.lax.map(pool, boxes)


def _bin_weights(low: Array, high: Array, bins: int, size: int, *, sampling_ratio: int, aligned: bool) -> Array:
    """Returns the weights (bins, cells) along an axis: means of the samples' hat functions."""
    extent = high - low if aligned else jnp.maximum(high - low, 1.0)
    places = np.arange(bins)[:, None] + (np.arange(sampling_ratio) + 0.5) / sampling_ratio
    points = low - (0.5 if aligned else 0.0) + places * (extent / bins)
    inside = (points >= -1) & (points <= size)
    distance = jnp.abs(jnp.clip(points, 0, size - 1)[..., None] - np.arange(size))
    return (jnp.maximum(0.0, 1.0 - distance) * inside[..., None]).mean(1)


def grid_sample(input: Array, grid: Array, *, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    sizes, order = input.shape[:1:-1], 0 if interpolation_mode == NEAREST else 1
    places = grid.astype(jnp.promote_types(grid.dtype, jnp.float32))
    points = [_positions(places[..., axis], size, padding_mode, align_corners) for axis, size in enumerate(sizes)]

    def sampled(plane: Array, points: Sequence[Array]) -> Array:
        return map_coordinates(plane, [each if order else jnp.rint(each) for each in points], order, "constant")

    of_image = jax.vmap(sampled, (0, None))
    return jax.vmap(of_image)(input.astype(places.dtype), points[::-1]).astype(input.dtype)


def _positions(values: Array, size: int, padding_mode: int, align_corners: bool) -> Array:
    """Returns the positions of points along one axis, with cells at integers."""
    at = (values + 1) / 2 * (size - 1) if align_corners else ((values + 1) * size - 1) / 2
    if padding_mode == Padding.REFLECTION:
        # Between centres, a single cell has the span 0, and so the position 0.
        low, span = (0.0, max(size - 1.0, 1.0)) if align_corners else (-0.5, float(size))
        phase = jnp.mod(at - low, 2 * span)
        at = low + jnp.where(phase < span, phase, 2 * span - phase)
    if padding_mode != Padding.ZEROS:
        at = jnp.clip(at, 0, size - 1)
    # Points far outside, or at NaN, are outside of any image, as in PyTorch.
    return jnp.where(jnp.isfinite(at), jnp.clip(at, -2, size + 1), -2)
