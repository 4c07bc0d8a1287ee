"""The APIs of PyTorch as msprobe names them, and which of them a server differentiates."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch import _elementwise, _functions, _sampling, _several
from aclgrad.torch._roi_align import roi_align as pool_regions


@dataclass(frozen=True, slots=True)
class Api:
    """A function of PyTorch, and the same one with the gradients of a client's server."""

    function: Callable[..., Any]
    remote: Callable[..., Any]


def _roi_align(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Is torchvision's own, which need not be installed."""
    if not isinstance(boxes, Tensor):
        boxes = torch.cat([functional.pad(each, (1, 0), value=image) for image, each in enumerate(boxes)])
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    return pool_regions(input, boxes, height, width, spatial_scale, sampling_ratio, aligned)


def _npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    a, b = input.chunk(2, dim)
    return functional.silu(a) * b


def _npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Returns the first of torch_npu's outputs, which alone has a gradient."""
    return functional.rms_norm(input, gamma.shape, gamma, epsilon)


def _remote_npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6, *, client: Client) -> Tensor:
    return _several.rms_norm(input, gamma.shape, gamma, epsilon, client=client)


_INTERPOLATE: Final = Api(functional.interpolate, _sampling.interpolate)
_OTHERS: Final = {
    "NPU.npu_rms_norm": Api(_npu_rms_norm, _remote_npu_rms_norm),
    "NPU.npu_swiglu": Api(_npu_swiglu, _elementwise.swiglu),
    "torchvision.ops.roi_align": Api(_roi_align, _sampling.roi_align),
    # Old names, of the same arguments.
    **dict.fromkeys(("Functional.upsample", "Functional.upsample_nearest"), _INTERPOLATE),
}
"""What need not be installed, and what a block has no need to see."""


def served_apis() -> dict[str, Api]:
    """Returns the APIs that a server may differentiate, by msprobe's names without a number."""
    remotes = _functions.rerouted()
    places = {"Functional": functional, "Torch": torch, "Tensor": Tensor}
    found = {
        f"{prefix}.{name}": Api(function, remotes[function])
        for prefix, place in places.items()
        for name, function in inspect.getmembers_static(place, callable)
        if function in remotes
    }
    return {**found, **_OTHERS}
