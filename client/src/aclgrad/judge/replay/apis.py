"""The APIs of PyTorch as msprobe names them, and which of them a server differentiates."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.judge.dumps.others import OTHERS
from aclgrad.torch.calls import interpolate, rerouted, rms_norm, roi_align, swiglu


@dataclass(frozen=True, slots=True)
class Api:
    """A function of PyTorch, and the same one with the gradients of a client's server."""

    function: Callable[..., Any]
    remote: Callable[..., Any]


def _remote_npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6, *, client: Client) -> Tensor:
    return rms_norm(input, gamma.shape, gamma, epsilon, client=client)


_INTERPOLATE: Final = Api(functional.interpolate, interpolate)
_OTHERS: Final = {
    "NPU.npu_rms_norm": Api(OTHERS["NPU.npu_rms_norm"], _remote_npu_rms_norm),
    "NPU.npu_swiglu": Api(OTHERS["NPU.npu_swiglu"], swiglu),
    "torchvision.ops.roi_align": Api(OTHERS["torchvision.ops.roi_align"], roi_align),
    # Old names, of the same arguments.
    **dict.fromkeys(("Functional.upsample", "Functional.upsample_nearest"), _INTERPOLATE),
}
"""What need not be installed, and what a block has no need to see."""


def served_apis() -> dict[str, Api]:
    """Returns the APIs that a server may differentiate, by msprobe's names without a number."""
    remotes = rerouted()
    modules = {"Functional": functional, "Torch": torch, "Tensor": Tensor}
    found = {
        f"{prefix}.{name}": Api(function, remotes[function])
        for prefix, module in modules.items()
        for name, function in inspect.getmembers_static(module, callable)
        if function in remotes
    }
    return {**found, **_OTHERS}
