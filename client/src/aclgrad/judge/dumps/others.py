"""Functions of torch_npu and torchvision in PyTorch's own terms, so that neither need be installed."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.torch.calls import pooled_regions


def _roi_align(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    if not isinstance(boxes, Tensor):
        boxes = torch.cat([functional.pad(each, (1, 0), value=image) for image, each in enumerate(boxes)])
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    return pooled_regions(input, boxes, height, width, spatial_scale, sampling_ratio, aligned)


def _npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    a, b = input.chunk(2, dim)
    return functional.silu(a) * b


def _npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Returns the result, and 1 / sqrt(mean square + epsilon) of each row."""
    axes = tuple(range(input.dim() - gamma.dim(), input.dim()))
    rstd = (
        input.detach().to(torch.promote_types(input.dtype, torch.float32)).square().mean(axes, True) + epsilon
    ).rsqrt()
    return functional.rms_norm(input, gamma.shape, gamma, epsilon), rstd


OTHERS: Final[Mapping[str, Callable[..., Any]]] = {
    "NPU.npu_rms_norm": _npu_rms_norm,
    "NPU.npu_swiglu": _npu_swiglu,
    "torchvision.ops.roi_align": _roi_align,
}
"""By msprobe's names."""
