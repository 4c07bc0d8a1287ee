"""Pads, scaled images, regions of images and rows of tables, with gradients from the server of a client."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import Size, per_axis, run


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None, *, client: Client
) -> Tensor:
    """Pads up to three last axes by copies of the edge (mode "replicate") or by mirrored cells ("reflect").

    `pad` has the cells before and after each axis, the last axis first. The gradient is that of the client's server.
    Raises InvalidFieldError for other modes and if its product cannot compute it.
    """
    rule = {"replicate": "replication", "reflect": "reflection"}.get(mode)
    if rule is None:
        raise LocalError(f"there is no operator for {mode} pads")
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
    """Scales the planes of (N, C, H, W) to `size` or by `scale_factor`, with `mode` "nearest" or "bilinear".

    The gradient is that of the client's server. Raises InvalidFieldError for other modes, for a scale that the sizes do
    not have, and if its product cannot compute it.
    """
    is_bilinear = mode == "bilinear" and not antialias
    if not is_bilinear and (mode != "nearest" or align_corners is not None or antialias):
        raise LocalError(f"there are operators for nearest and bilinear alone, not for {_mode(mode, antialias)}")
    if input.dim() != 4 or (size is None) == (scale_factor is None):
        raise LocalError("the operator takes 4 dims, and a size or a scale")
    if isinstance(size, Sequence) and len(size) != 2:
        raise LocalError("PyTorch wants a size, or one for each axis")
    scales, sizes = [0.0, 0.0], per_axis(size, 2)
    if scale_factor is not None:
        scales = [float(each) for each in (scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * 2)]
        if len(scales) != 2 or not all(abs(each) < math.inf for each in scales):
            raise LocalError("the operator takes two finite scales")
        sizes = [int(each * scale) for each, scale in zip(input.shape[2:], scales, strict=True)]
        if recompute_scale_factor or (is_bilinear and align_corners):
            scales = [0.0, 0.0]
        elif any(each * scale != new for each, scale, new in zip(input.shape[2:], scales, sizes, strict=True)):
            raise LocalError("PyTorch uses the scale, and the operator the ratio of the sizes; they differ here")
    if is_bilinear:
        return run("upsample_bilinear2d", client, input, sizes, bool(align_corners), *scales)
    return run("upsample_nearest2d", client, input, sizes, *scales)


def _mode(mode: str, antialias: bool) -> str:
    return f"{mode} with antialias" if antialias else mode


def _torch_upsample_bilinear2d(
    input: Tensor, output_size: Size | None, align_corners: bool, *scales: Any, client: Client, **options: Any
) -> Tensor:
    """The function of `torch._C._nn`, which takes two scales, or a list of them."""
    given = [*scales, *options.values()]
    if output_size is not None and any(each is not None for each in given):
        raise LocalError("PyTorch uses scales beside the size, and the operator the ratio of the sizes")
    factors = given[0] if given else None
    return interpolate(input, output_size, factors, "bilinear", align_corners, client=client)


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
    sparse gradients, for `max_norm`, and if its product cannot compute it.
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


def _torch_embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    client: Client,
) -> Tensor:
    padding = None if padding_idx < 0 else padding_idx
    return embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, client=client)


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
    server; boxes have none. Raises InvalidFieldError if its product cannot compute it.
    """
    if not isinstance(boxes, Tensor):
        boxes = torch.cat([functional.pad(each, (1, 0), value=image) for image, each in enumerate(boxes)])
    height, width = per_axis(output_size, 2)
    return _torchvision_roi_align(input, boxes, spatial_scale, height, width, sampling_ratio, aligned, client=client)


def _torchvision_roi_align(
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


def rerouted() -> dict[Any, Callable[..., Tensor]]:
    """Returns our functions by the functions of PyTorch that they replace; RoI align only if torchvision is loaded."""
    found: dict[Any, Callable[..., Tensor]] = {
        functional.embedding: embedding,
        torch.embedding: _torch_embedding,
        functional.interpolate: interpolate,
        torch._C._nn.upsample_bilinear2d: _torch_upsample_bilinear2d,  # noqa: SLF001 - has no other name
        functional.pad: pad,
    }
    if hasattr(torch.ops.torchvision, "roi_align"):
        found[torch.ops.torchvision.roi_align] = _torchvision_roi_align
    return found
