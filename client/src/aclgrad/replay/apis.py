"""The APIs of PyTorch as msprobe names them, and which of them a server differentiates."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.torch import _functions, _sampling
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
    # It only calls the other one.
    found["Functional.upsample"] = Api(functional.upsample, remotes[functional.interpolate])
    return {**found, "torchvision.ops.roi_align": Api(_roi_align, _sampling.roi_align)}
