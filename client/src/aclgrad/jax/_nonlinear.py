"""Forward passes that are not linear: normalisation, and sampling at the points of a grid.

Each returns its outputs, and what the operator of its gradients takes beside the arguments.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad.operators._families.grid_sampler.spec import NEAREST, Padding

Arrays = Mapping[str, Array]
Result = tuple[tuple[Array, ...], dict[str, Any]]
_OUTSIDE = -100.0
"""Where a point is that is not at a number: outside any image, as in PyTorch."""


def _wide(array: Array) -> Array:
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def softmax(arrays: Arrays, *, dim: int) -> Result:
    return _of_rows(jax.nn.softmax, arrays["input"], dim)


def log_softmax(arrays: Arrays, *, dim: int) -> Result:
    return _of_rows(jax.nn.log_softmax, arrays["input"], dim)


def _of_rows(function: Callable[..., Array], input: Array, dim: int) -> Result:
    """Returns the function's result, which its operator takes."""
    wide = _wide(input)
    output = function(wide, dim) if wide.ndim else function(wide.reshape(1), dim).reshape(())
    return (output.astype(input.dtype),), {"output": output.astype(input.dtype)}


def embedding(arrays: Arrays, **_: Any) -> Result:
    return (arrays["input"][arrays["indices"]],), {}


def layer_norm(arrays: Arrays, *, normalized_shape: tuple[int, ...], eps: float) -> Result:
    input = _wide(arrays["input"])
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean = input.mean(axes, keepdims=True)
    rstd = jax.lax.rsqrt(input.var(axes, keepdims=True) + eps)
    output = (input - mean) * rstd
    if "weight" in arrays:
        output = output * arrays["weight"]
    if "bias" in arrays:
        output = output + arrays["bias"]
    # No gradient depends on the bias.
    return (output.astype(arrays["input"].dtype),), {"mean": mean, "rstd": rstd, "bias": None}


def rms_norm(arrays: Arrays, *, eps: float) -> Result:
    input, gamma = _wide(arrays["input"]), arrays["gamma"]
    axes = tuple(range(input.ndim - gamma.ndim, input.ndim))
    rstd = jax.lax.rsqrt(jnp.square(input).mean(axes, keepdims=True) + eps)
    return ((input * rstd * gamma).astype(arrays["input"].dtype),), {"rstd": rstd}


def group_norm(arrays: Arrays, *, group: int, eps: float, **_: int) -> Result:
    input = _wide(arrays["input"])
    groups = input.reshape(input.shape[0], group, -1) if input.size else jnp.ones((input.shape[0], group, 1))
    mean, var = groups.mean(2), groups.var(2)
    rstd = jax.lax.rsqrt(var + eps)
    output = ((groups - mean[..., None]) * rstd[..., None]).reshape(input.shape) if input.size else input
    columns, dtype = (-1, *[1] * (input.ndim - 2)), arrays["input"].dtype
    if "gamma" in arrays:
        output = output * arrays["gamma"].reshape(columns)
    if "bias" in arrays:
        output = output + arrays["bias"].reshape(columns)
    saved = {"mean": mean.astype(dtype), "rstd": rstd.astype(dtype)}
    if "gamma" in arrays:
        saved["gamma"] = arrays["gamma"].astype(dtype)
    return (output.astype(dtype),), saved


def batch_norm(arrays: Arrays, *, training: bool, momentum: float, eps: float) -> Result:
    """Returns the output and the new running statistics, as far as there are any."""
    input = _wide(arrays["input"])
    axes, columns = (0, *range(2, input.ndim)), (-1, *[1] * (input.ndim - 2))
    running = [arrays[name] for name in ("running_mean", "running_var") if name in arrays]
    if training:
        count = input.size // max(input.shape[1], 1)
        mean, var = input.mean(axes), input.var(axes)
        invstd = jax.lax.rsqrt(var + eps)
        unused: dict[str, Any] = {"running_mean": None, "running_var": None}
        saved = {"save_mean": mean, "save_invstd": invstd, **unused}
        if count:
            seen = mean, var * (count / max(count - 1, 1))
            running = [
                ((1 - momentum) * each + momentum * new).astype(each.dtype)
                for each, new in zip(running, seen, strict=False)
            ]
    else:
        mean, var = map(_wide, running)
        invstd, saved = jax.lax.rsqrt(var + eps), {}
    output = (input - mean.reshape(columns)) * invstd.reshape(columns)
    if "weight" in arrays:
        output = output * arrays["weight"].reshape(columns)
    if "bias" in arrays:
        output = output + arrays["bias"].reshape(columns)
    return (output.astype(arrays["input"].dtype), *running), saved


def grid_sample(arrays: Arrays, *, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Result:
    input, grid = arrays["input"], _wide(arrays["grid"])
    sizes = input.shape[:1:-1]
    positions = [_positions(grid[..., axis], size, padding_mode, align_corners) for axis, size in enumerate(sizes)]
    image = jnp.arange(input.shape[0]).reshape(-1, *(1 for _ in sizes))
    cells = jnp.moveaxis(_wide(input), 1, -1)

    def taken(at: list[Array], weights: list[Array]) -> Array:
        inside = reduce(jnp.logical_and, [(each >= 0) & (each < size) for each, size in zip(at, sizes, strict=True)])
        cell = [jnp.clip(each, 0, size - 1).astype(jnp.int32) for each, size in zip(at, sizes, strict=True)]
        values = jnp.where(inside[..., None], cells[(image, *reversed(cell))], 0)
        return jnp.where(inside, reduce(jnp.multiply, weights), 0)[..., None] * values

    if interpolation_mode == NEAREST:
        sampled = taken([jnp.rint(each) for each in positions], [jnp.ones_like(each) for each in positions])
    else:
        corners = [
            [jnp.floor(each) + after for each, after in zip(positions, corner, strict=True)]
            for corner in np.ndindex((2,) * len(sizes))
        ]
        sampled = sum(
            taken(at, [1 - jnp.abs(each - cell) for each, cell in zip(positions, at, strict=True)]) for at in corners
        )
    return (jnp.moveaxis(sampled, -1, 1).astype(input.dtype),), {}


def _positions(values: Array, size: int, padding_mode: int, align_corners: bool) -> Array:
    """Returns where points are along one axis, with cells at whole numbers."""
    at = (values + 1) / 2 * (size - 1) if align_corners else ((values + 1) * size - 1) / 2
    if padding_mode == Padding.REFLECTION:
        # The span of a single cell between centres is 0, and so is its place.
        low, span = (0.0, max(size - 1.0, 1.0)) if align_corners else (-0.5, float(size))
        phase = jnp.mod(at - low, 2 * span)
        at = low + jnp.where(phase < span, phase, 2 * span - phase)
    if padding_mode != Padding.ZEROS:
        at = jnp.clip(at, 0, size - 1)
    return jnp.where(jnp.isfinite(at), at, _OUTSIDE)
