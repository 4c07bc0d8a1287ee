"""The functions of torch.nn.functional, and torchvision's RoI align, with remote gradients.

Each raises LocalError if no operator computes the gradient of the call; `client` is a number here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.torch._account import ForeignError, LocalError
from aclgrad.torch._operations import OPERATIONS
from aclgrad.torch._tensors import dtype_name

Size = int | Sequence[int]


def _run(name: str, client: int, input: Tensor, *rest: Any) -> Any:
    if name not in OPERATIONS:
        raise LocalError(f"there is no operator for {name}")
    grad_output = OPERATORS[OPERATIONS[name].operator].inputs[0]
    if not any(dtype_name(input) in dtypes for dtypes in grad_output.dtypes.values()):
        raise LocalError(f"no product takes {dtype_name(input)}")
    if input.dim() not in grad_output.ranks:
        raise LocalError(
            f"the input has {input.dim()} dims, and the operator takes {' or '.join(map(str, grad_output.ranks))}"
        )
    return getattr(torch.ops.aclgrad, name)(input, *rest, client)


def _sizes(value: Size | None, count: int) -> list[int]:
    """Returns a size for each axis; none for None."""
    if value is None:
        return []
    # Not only an int: PyTorch takes numpy's integers too.
    sizes = list(value) if isinstance(value, Sequence) else [value]
    return sizes * count if len(sizes) == 1 else sizes


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None], *, client: int) -> Any:
    return _adaptive_avg_pool(2, input, output_size, client)


def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None], *, client: int) -> Any:
    return _adaptive_avg_pool(3, input, output_size, client)


def _adaptive_avg_pool(axes: int, input: Tensor, output_size: int | Sequence[int | None], client: int) -> Any:
    given = [output_size] * axes if isinstance(output_size, int) else list(output_size)
    sizes = [own if size is None else size for size, own in zip(given, input.shape[-axes:], strict=True)]
    return _run(f"adaptive_avg_pool{axes}d", client, input, sizes)


def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    client: int,
) -> Any:
    window = [_sizes(each, 2) for each in (kernel_size, stride, padding)]
    return _run("avg_pool2d", client, input, *window, ceil_mode, count_include_pad, divisor_override or 0)


def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    client: int,
) -> Any:
    if set(_sizes(dilation, 2)) != {1}:
        raise LocalError("the operator has no dilation")
    window = [_sizes(each, 2) for each in (kernel_size, stride, padding, dilation)]
    pooled = _run("max_pool2d", client, input, *window, ceil_mode)
    return pooled if return_indices else pooled[0]


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
    client: int,
) -> Any:
    window = _sizes(kernel_size, 2), _sizes(stride, 2) or None, _sizes(padding, 2)
    return _run("max_unpool2d", client, input, indices, *window, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
    *,
    client: int,
) -> Any:
    window = _sizes(kernel_size, 3), _sizes(stride, 3) or None, _sizes(padding, 3)
    return _run("max_unpool3d", client, input, indices, *window, output_size)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None, *, client: int) -> Any:
    rule = {"replicate": "replication", "reflect": "reflection"}.get(mode)
    if rule is None:
        raise ForeignError(f"there is no operator for {mode} pads")
    return _run(f"{rule}_pad{len(pad) // 2}d", client, input, list(pad))


def interpolate(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    client: int,
) -> Any:
    if mode != "nearest" or align_corners is not None or antialias:
        raise ForeignError(f"there is an operator for nearest neighbours alone, not for {mode}")
    if input.dim() != 4 or (size is None) == (scale_factor is None):
        raise LocalError("the operator takes 4 dims, and a size or a scale")
    if scale_factor is None:
        return _run("upsample_nearest2d", client, input, _sizes(size, 2), 0.0, 0.0)
    scales = [float(each) for each in (scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * 2)]
    sizes = [each * scale for each, scale in zip(input.shape[2:], scales, strict=True)]
    if recompute_scale_factor:
        scales = [0.0, 0.0]
    elif any(each != int(each) for each in sizes):
        raise LocalError("PyTorch uses the scale, and the operator the ratio of the sizes; they differ here")
    return _run("upsample_nearest2d", client, input, [int(each) for each in sizes], *scales)


def roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: Size,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    client: int,
) -> Any:
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
    client: int,
) -> Any:
    if boxes.requires_grad:
        raise InvalidFieldError.at("boxes", "requires grad, and RoI align has no gradient of boxes", "detach the boxes")
    return _run(
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
        functional.pad: pad,
        functional.interpolate: interpolate,
    }
    if hasattr(torch.ops.torchvision, "roi_align"):
        found[torch.ops.torchvision.roi_align] = torchvision_roi_align
    return found
