"""Pooling and unpooling as in torch.nn.functional, with gradients from the server of a client."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, Literal, overload

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import Size, per_axis, run


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None], *, client: Client) -> Tensor:
    """Averages (N, C, H, W) or (C, H, W) over windows that divide the planes into `output_size`, as PyTorch does.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    return _adaptive_avg_pool(2, input, output_size, client)


def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None], *, client: Client) -> Tensor:
    """Averages (N, C, D, H, W) or (C, D, H, W) over windows that divide the volumes into `output_size`.

    Float64 and the products 910A and 310P have one window alone. Otherwise as `adaptive_avg_pool2d`.
    """
    return _adaptive_avg_pool(3, input, output_size, client)


def _adaptive_avg_pool(axes: int, input: Tensor, output_size: int | Sequence[int | None], client: Client) -> Tensor:
    given = [output_size] * axes if isinstance(output_size, int) else list(output_size)
    sizes = [own if size is None else size for size, own in zip(given, input.shape[-axes:], strict=True)]
    return run(f"adaptive_avg_pool{axes}d", client, input, sizes)


def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    client: Client,
) -> Tensor:
    """Averages windows of (N, C, H, W) or (C, H, W), as `torch.nn.functional.avg_pool2d` does.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    if divisor_override == 0:
        raise LocalError("the divisor is 0")
    window = [per_axis(each, 2) for each in (kernel_size, stride, padding)]
    return run("avg_pool2d", client, input, *window, ceil_mode, count_include_pad, divisor_override or 0)


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    client: Client,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    client: Client,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    client: Client,
) -> Any:
    """Returns the maxima of windows of (N, C, H, W) or (C, H, W), with `return_indices` also where they are.

    The gradient is that of the client's server, which has no `dilation`. Raises InvalidFieldError if its product
    cannot compute it.
    """
    if set(per_axis(dilation, 2)) != {1}:
        raise LocalError("the operator has no dilation")
    window = [per_axis(each, 2) for each in (kernel_size, stride, padding, dilation)]
    pooled = run("max_pool2d", client, input, *window, ceil_mode)
    return pooled if return_indices else pooled[0]


@wraps(max_pool2d)
def _max_pool2d_with_indices(*args: Any, **options: Any) -> Any:
    return max_pool2d(*args, **{**options, "return_indices": True})


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
    *,
    client: Client,
) -> Tensor:
    """Returns zeros with the values of (N, C, H, W) or (C, H, W) at `indices`, int64 of the same shape.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    size, _ = _unpooled(2, input, kernel_size, stride, padding, output_size)
    return run("max_unpool2d", client, input, indices, size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
    *,
    client: Client,
) -> Tensor:
    """`max_unpool2d` for volumes, (N, C, D, H, W) or (C, D, H, W)."""
    size, window = _unpooled(3, input, kernel_size, stride, padding, output_size)
    return run("max_unpool3d", client, input, indices, size, *window)


def _unpooled(
    axes: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size, output_size: Sequence[int] | None
) -> tuple[list[int], tuple[list[int], list[int]]]:
    """Returns the size of the unpooled axes, stride and padding, by PyTorch's own rule."""
    kernel, step, pads = (per_axis(each, axes) for each in (kernel_size, stride, padding))
    rule: Callable[..., list[int]] = vars(functional)["_unpool_output_size"]
    size = rule(input, kernel, step or kernel, pads, output_size)
    return list(size), (step or kernel, pads)


REROUTED: Final[dict[Any, Callable[..., Any]]] = {
    functional.adaptive_avg_pool2d: adaptive_avg_pool2d,
    functional.adaptive_avg_pool3d: adaptive_avg_pool3d,
    functional.avg_pool2d: avg_pool2d,
    **dict.fromkeys((functional.max_pool2d, torch.max_pool2d), max_pool2d),
    functional.max_pool2d_with_indices: _max_pool2d_with_indices,
    functional.max_unpool2d: max_unpool2d,
    functional.max_unpool3d: max_unpool3d,
}
"""Our functions by the functions of PyTorch that they replace."""
