"""The functions of torch.nn.functional, and torchvision's RoI align, with gradients from the server of a client.

Arguments, outputs and errors of the forward pass are PyTorch's. What a server cannot differentiate raises LocalError,
by the rules of its product.
"""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import ForeignError, LocalError
from aclgrad.torch._elementwise import REROUTED
from aclgrad.torch._run import run
from aclgrad.torch._several import batch_norm, grid_sample, group_norm, layer_norm, rms_norm
from aclgrad.torch._softmax import REROUTED as SOFTMAX

Size = int | Sequence[int]


def _sizes(value: Size | None, count: int) -> list[int]:
    """Returns a size for each axis; none for None."""
    if value is None:
        return []
    # Not only an int: PyTorch takes numpy's integers too.
    sizes = list(value) if isinstance(value, Sequence) else [value]
    return sizes * count if len(sizes) == 1 else sizes


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None], *, client: Client) -> Tensor:
    """Averages (N, C, H, W) or (C, H, W) over windows that divide the planes into `output_size`, as PyTorch does.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
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

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    if divisor_override == 0:
        raise LocalError("the divisor is 0")
    window = [_sizes(each, 2) for each in (kernel_size, stride, padding)]
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

    The gradient is that of the client's server, which has no `dilation`. Raises InvalidFieldError for what its product
    does not compute.
    """
    if set(_sizes(dilation, 2)) != {1}:
        raise LocalError("the operator has no dilation")
    window = [_sizes(each, 2) for each in (kernel_size, stride, padding, dilation)]
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

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
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
    """Is `max_unpool2d` for volumes, (N, C, D, H, W) or (C, D, H, W)."""
    size, window = _unpooled(3, input, kernel_size, stride, padding, output_size)
    return run("max_unpool3d", client, input, indices, size, *window)


def _unpooled(
    axes: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size, output_size: Sequence[int] | None
) -> tuple[list[int], tuple[list[int], list[int]]]:
    """Returns the size of the unpooled axes, stride and padding, by PyTorch's own rule."""
    kernel, step, pads = (_sizes(each, axes) for each in (kernel_size, stride, padding))
    rule: Callable[..., list[int]] = vars(functional)["_unpool_output_size"]
    size = rule(input, kernel, step or kernel, pads, output_size)
    return list(size), (step or kernel, pads)


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None, *, client: Client
) -> Tensor:
    """Pads up to three last axes by copies of the edge (mode "replicate") or by mirrored cells ("reflect").

    `pad` has the cells before and after each axis, the last axis first. The gradient is that of the client's server.
    Raises InvalidFieldError for other modes and for what its product does not compute.
    """
    rule = {"replicate": "replication", "reflect": "reflection"}.get(mode)
    if rule is None:
        raise ForeignError(f"there is no operator for {mode} pads")
    return run(f"{rule}_pad{len(pad) // 2}d", client, input, list(pad))


def interpolate(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    client: Client,
) -> Tensor:
    """Scales the planes of (N, C, H, W) to `size` or by `scale_factor`, each cell from its nearest neighbour.

    The gradient is that of the client's server. Raises InvalidFieldError for other modes, for a scale that the sizes do
    not have, and for what its product does not compute.
    """
    if mode != "nearest" or align_corners is not None or antialias:
        raise ForeignError(f"there is an operator for nearest neighbours alone, not for {mode}")
    if input.dim() != 4 or (size is None) == (scale_factor is None):
        raise LocalError("the operator takes 4 dims, and a size or a scale")
    if scale_factor is None:
        return run("upsample_nearest2d", client, input, _sizes(size, 2), 0.0, 0.0)
    scales = [float(each) for each in (scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * 2)]
    if len(scales) != 2 or not all(abs(each) < math.inf for each in scales):
        raise LocalError("the operator takes two finite scales")
    sizes = [each * scale for each, scale in zip(input.shape[2:], scales, strict=True)]
    if recompute_scale_factor:
        scales = [0.0, 0.0]
    elif any(each != int(each) for each in sizes):
        raise LocalError("PyTorch uses the scale, and the operator the ratio of the sizes; they differ here")
    return run("upsample_nearest2d", client, input, [int(each) for each in sizes], *scales)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    client: Client,
) -> Tensor:
    """Returns the rows of `weight` (rows, columns) at the indices `input`, as `torch.nn.functional.embedding` does.

    The gradient of `weight` is that of the client's server, and has no second derivative. Raises InvalidFieldError for
    sparse gradients, for `max_norm`, and for what its product does not compute.
    """
    if max_norm is not None or sparse:
        raise LocalError("the operator has neither max_norm nor sparse gradients")
    if weight.dim() != 2 or input.dtype not in (torch.int32, torch.int64):
        raise LocalError("the operator takes int32 or int64 indices of rows")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise LocalError(f"PyTorch refuses {padding_idx} as the padding of {rows} rows")
    padding = -1 if padding_idx is None else padding_idx % rows
    return run("embedding", client, weight, input, padding, scale_grad_by_freq)


def roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: Size,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    client: Client,
) -> Tensor:
    """Pools regions of (N, C, H, W) to (M, C, *output_size), as `torchvision.ops.roi_align` does.

    `boxes` are (M, 5), the image and two corners, or (M, 4) for each image. The gradient is that of the client's
    server; boxes have none. Raises InvalidFieldError for what its product does not compute.
    """
    if not isinstance(boxes, Tensor):
        boxes = torch.cat([functional.pad(each, (1, 0), value=image) for image, each in enumerate(boxes)])
    height, width = _sizes(output_size, 2)
    return torchvision_roi_align(input, boxes, spatial_scale, height, width, sampling_ratio, aligned, client=client)


def torchvision_roi_align(
    input: Tensor,
    boxes: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
    *,
    client: Client,
) -> Tensor:
    if boxes.requires_grad:
        raise LocalError("boxes requires grad, and RoI align has no gradient of boxes; detach the boxes")
    return run(
        "roi_align", client, input, boxes, pooled_height, pooled_width, spatial_scale, max(sampling_ratio, 0), aligned
    )


def rerouted() -> dict[Any, Callable[..., Any]]:
    """Returns the functions by those of PyTorch that they stand for; RoI align only if torchvision is loaded."""
    found: dict[Any, Callable[..., Any]] = {
        functional.adaptive_avg_pool2d: adaptive_avg_pool2d,
        functional.adaptive_avg_pool3d: adaptive_avg_pool3d,
        functional.avg_pool2d: avg_pool2d,
        functional.max_pool2d: max_pool2d,
        functional.max_pool2d_with_indices: _max_pool2d_with_indices,
        torch.max_pool2d: max_pool2d,
        functional.max_unpool2d: max_unpool2d,
        functional.max_unpool3d: max_unpool3d,
        functional.embedding: embedding,
        functional.pad: pad,
        functional.interpolate: interpolate,
        functional.batch_norm: batch_norm,
        functional.grid_sample: grid_sample,
        functional.group_norm: group_norm,
        functional.layer_norm: layer_norm,
        **REROUTED,
        functional.rms_norm: rms_norm,
        torch.rms_norm: rms_norm,
        **SOFTMAX,
    }
    if hasattr(torch.ops.torchvision, "roi_align"):
        found[torch.ops.torchvision.roi_align] = torchvision_roi_align
    return found
