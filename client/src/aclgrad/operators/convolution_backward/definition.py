"""Convolution and its gradients."""

import math
from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array, shape_of
from aclgrad.operators.families.convolution.definition import at, by_group, gathered, on_grid, scattered, taps
from aclgrad.operators.families.convolution.geometry import Geometry


def backward(
    grad_output: Array,
    input: Array | Sequence[int],
    weight: Array | Sequence[int],
    bias_sizes: Sequence[int] | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    transposed: bool = False,
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    cube_math_type: int | None = None,
) -> tuple[Array, Array, Array]:
    """Tap by tap, each of which is a product of matrices; what depends on an input that is a shape is not a number."""
    shapes = shape_of(input), shape_of(weight)
    geometry = Geometry.of(*shapes, grad_output.shape, stride, padding, dilation, output_padding, transposed, groups)
    grad_bias = grad_output.astype(np.float64).sum((0, *range(2, grad_output.ndim)))
    grad_input, grad_weight = (np.full(shape, np.nan) for shape in shapes)
    if isinstance(weight, np.ndarray):
        matrices = by_group(weight, 0, groups)
        if transposed:
            grad_input = gathered(on_grid(grad_output, geometry), matrices, geometry).reshape(shapes[0])
        else:
            grad_input = scattered(grad_output, matrices, geometry)
    if isinstance(input, np.ndarray):
        small, big = (input, grad_output) if transposed else (grad_output, input)
        grad_weight = _of_weight(by_group(small, 1, groups), on_grid(big, geometry), geometry)
    return grad_input, grad_weight, grad_bias


def _of_weight(small: Array, grid: Array, geometry: Geometry) -> Array:
    found = np.zeros((*small.shape[1:3], grid.shape[2], *geometry.kernel))
    rows = small.reshape(*small.shape[:3], math.prod(small.shape[3:]))
    for tap, cells in taps(geometry):
        columns = grid[at(cells)].reshape(*grid.shape[:3], rows.shape[3])
        # One product for each image: einsum would add up both axes without a product of matrices, many times slower.
        found[at(tap)] = sum(each @ other.swapaxes(1, 2) for each, other in zip(rows, columns, strict=True))
    return found.reshape(geometry.weight)


def forward(
    grad_output: Array,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    bias_sizes: Sequence[int] | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    transposed: bool = False,
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    cube_math_type: int | None = None,
) -> Array:
    """Window by window; of a transposed one on the input with zeros between its cells, and the weight turned round."""
    geometry = Geometry.of(
        input.shape, weight.shape, grad_output.shape, stride, padding, dilation, output_padding, transposed, groups
    )
    spatial = tuple(range(2, input.ndim))
    spans = [d * (k - 1) + 1 for k, d in zip(geometry.kernel, geometry.dilation, strict=True)]
    matrices = by_group(weight, 0, groups)
    if transposed:
        sizes = [(size - 1) * s + 1 for size, s in zip(input.shape[2:], geometry.stride, strict=True)]
        cells = np.zeros((*input.shape[:2], *sizes))
        cells[at([slice(None, None, s) for s in geometry.stride])] = input
        pads = [(span - 1, span - 1 + more) for span, more in zip(spans, geometry.output_padding, strict=True)]
        cells = np.pad(cells, [(0, 0)] * 2 + pads)
        inside = [slice(p, size - p) for p, size in zip(geometry.padding, cells.shape[2:], strict=True)]
        cells, steps = cells[at(inside)], (1,) * len(spatial)
        matrices = np.flip(matrices.swapaxes(1, 2), tuple(range(3, matrices.ndim)))
    else:
        cells, steps = np.pad(input, [(0, 0)] * 2 + [(p, p) for p in geometry.padding]), geometry.stride
    windows = np.lib.stride_tricks.sliding_window_view(by_group(cells, 1, groups), spans, tuple(s + 1 for s in spatial))
    chosen = [slice(None, None, each) for each in (*steps, *geometry.dilation)]
    places, taps = "xyz"[: len(spatial)], "ijk"[: len(spatial)]
    equation = f"ngc{places}{taps},goc{taps}->ngo{places}"
    found: Array = np.einsum(equation, windows[at(chosen)], matrices).reshape(grad_output.shape)
    return found if bias is None else found + bias.reshape(-1, *[1] * len(spatial))
