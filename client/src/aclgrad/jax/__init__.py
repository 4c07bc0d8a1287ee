"""JAX with gradients from a server: forward passes are JAX's, backward passes are calls of a client.

import aclgrad, aclgrad.jax, jax

with aclgrad.Client("127.0.0.1:50051") as client:
    gradient = jax.grad(lambda images: aclgrad.jax.max_pool2d(images, 2, client=client).sum())(images)

The functions have the names, arguments and layout (N, C, H, W) of `torch.nn.functional`.
"""

from collections.abc import Sequence
from typing import Any

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.jax import _forward
from aclgrad.jax._gradients import differentiable
from aclgrad.masks import Pooling, pair
from aclgrad.operators.catalogue import OPERATORS

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool2d",
    "interpolate",
    "max_pool2d",
    "max_unpool2d",
    "max_unpool3d",
    "pad",
    "roi_align",
]
Array = Any
Size = int | Sequence[int]


def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None], *, client: Client) -> Array:
    return _adaptive_avg_pool(2, input, output_size, client)


def adaptive_avg_pool3d(input: Array, output_size: int | Sequence[int | None], *, client: Client) -> Array:
    return _adaptive_avg_pool(3, input, output_size, client)


def avg_pool2d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    client: Client,
) -> Array:
    pooling = _pooling(input, kernel_size, stride, padding, ceil_mode)
    more = {"count_include_pad": count_include_pad, "divisor_override": divisor_override or 0}
    static = pooling, *more.values()
    return differentiable(
        client, "avg_pool2d_backward", _forward.avg_pool2d, static, {**_window(pooling), **more}, input
    )


def max_pool2d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    *,
    client: Client,
) -> Array:
    pooling = _pooling(input, kernel_size, stride, padding, ceil_mode)
    operator = "max_pool2d_with_mask_backward"
    return differentiable(client, operator, _forward.max_pool2d, (pooling,), _window(pooling), input)


def max_unpool2d(input: Array, indices: Array, output_size: Sequence[int], *, client: Client) -> Array:
    return _max_unpool(2, input, indices, output_size, client)


def max_unpool3d(input: Array, indices: Array, output_size: Sequence[int], *, client: Client) -> Array:
    return _max_unpool(3, input, indices, output_size, client)


def pad(input: Array, pad: Sequence[int], mode: str, *, client: Client) -> Array:
    axes = len(pad) // 2
    rule = {"replicate": "replication", "reflect": "reflection"}.get(mode, mode)
    operator = f"{rule}_pad{axes}d_backward"
    if operator not in OPERATORS:
        raise InvalidFieldError.at("mode", f"is {mode!r} for {len(pad)} values of pad", "use jax.numpy.pad")
    sizes = [input.shape[-1 - each // 2] for each in range(len(pad))]
    if mode == "reflect" and any(width >= size for width, size in zip(pad, sizes, strict=True)):
        problem = f"is {tuple(pad)} for an input of shape {input.shape}"
        raise InvalidFieldError.at("pad", problem, "reflect fewer cells than each axis has")
    padding = tuple(pad)
    return differentiable(client, operator, _forward.pad, (padding, mode), {"padding": padding}, input)


def interpolate(input: Array, size: Size, *, client: Client) -> Array:
    sizes = pair(size)
    attributes = {"output_size": sizes, "input_size": input.shape}
    return differentiable(client, "upsample_nearest2d_backward", _forward.interpolate, (sizes,), attributes, input)


def roi_align(
    input: Array,
    boxes: Array,
    output_size: Size,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 2,
    aligned: bool = False,
    *,
    client: Client,
) -> Array:
    if sampling_ratio < 1:
        problem, remedy = f"is {sampling_ratio}, and JAX needs to know the number of samples", "give at least 1"
        raise InvalidFieldError.at("sampling_ratio", problem, remedy)
    pooled = pair(output_size)
    sampling = {"spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio, "aligned": aligned}
    attributes = {"input_shape": input.shape, "pooled_height": pooled[0], "pooled_width": pooled[1], **sampling}
    static = pooled, *sampling.values()
    return differentiable(client, "roi_align_v2_backward", _forward.roi_align, static, attributes, input, boxes)


def _adaptive_avg_pool(axes: int, input: Array, output_size: int | Sequence[int | None], client: Client) -> Array:
    given = [output_size] * axes if isinstance(output_size, int) else output_size
    sizes = tuple(size if count is None else count for size, count in zip(input.shape[-axes:], given, strict=True))
    operator = f"adaptive_avg_pool{axes}d_backward"
    return differentiable(client, operator, _forward.adaptive_avg_pool, (sizes,), {}, input)


def _max_unpool(axes: int, input: Array, indices: Array, output_size: Sequence[int], client: Client) -> Array:
    sizes = tuple(output_size)
    operator = f"max_unpool{axes}d_backward"
    return differentiable(client, operator, _forward.max_unpool, (sizes,), {"output_size": sizes}, input, indices)


def _pooling(input: Array, kernel_size: Size, stride: Size | None, padding: Size, ceil_mode: bool) -> Pooling:
    return Pooling.of(input.shape[-2:], kernel_size, () if stride is None else stride, padding, ceil_mode)


def _window(pooling: Pooling) -> dict[str, Any]:
    return {
        "kernel_size": pooling.kernel_size,
        "stride": pooling.stride,
        "padding": pooling.padding,
        "ceil_mode": pooling.ceil_mode,
    }
