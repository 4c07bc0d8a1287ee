"""Calls of PyTorch's functions, the operators that differentiate them, and their gradients by local autograd."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

HALVES = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""How far a sum that PyTorch rounds after every addition may be from one that is rounded once."""


@dataclass(frozen=True)
class Call:
    """A function of `torch.nn.functional` by name, an input's shape, the other arguments and the operator."""

    function: str
    operator: str
    shape: tuple[int, ...]
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        given = ["..." if isinstance(each, Tensor) else str(each) for each in self.args]
        given += [f"{key}={value}" for key, value in self.options.items()]
        return f"{self.function}({', '.join([str(self.shape), *given])})"

    def run(self, function: Callable[..., Any], dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Returns the output and the input's gradient for a gradient of the output that is not uniform."""
        input = torch.randn(self.shape, generator=torch.Generator().manual_seed(5)).to(dtype).requires_grad_()
        output = function(input, *self.args, **self.options)
        grad_output = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).reshape(output.shape)
        output.backward(grad_output.to(output.dtype))
        assert input.grad is not None
        return output.detach(), input.grad

    def locally(self, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        return self.run(getattr(functional, self.function), dtype)


def _places(cells: int, *shape: int) -> Tensor:
    """Returns indices of different cells for each plane."""
    order = torch.rand(*shape[:2], cells, generator=torch.Generator().manual_seed(6)).argsort()
    return order[..., : torch.Size(shape[2:]).numel()].reshape(shape)


def call(function: str, operator: str, shape: tuple[int, ...], *args: Any, **options: Any) -> Call:
    return Call(function, operator, shape, args, options)


def _named(name: str) -> Callable[..., Call]:
    """Returns what makes calls of a function whose operator is named after it."""
    return partial(call, name, f"{name}_backward")


_pool, _deep_pool, _avg_pool = map(_named, ("adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d"))
_max_pool = partial(call, "max_pool2d", "max_pool2d_with_mask_backward")
_flat_unpool = partial(_named("max_unpool2d"), (2, 3, 3, 2), _places(6 * 4, 2, 3, 3, 2))
_unpool = partial(_named("max_unpool3d"), (2, 3, 2, 3, 2), _places(4 * 6 * 4, 2, 3, 2, 3, 2))
_upsample = partial(call, "interpolate", "upsample_nearest2d_backward", (2, 3, 5, 4))
CALLS = (
    _pool((2, 3, 8, 9), (3, 4)),
    _pool((2, 3, 8, 9), 1),
    _pool((3, 8, 9), (None, 5)),
    _deep_pool((2, 3, 4, 8, 9), 2),
    _deep_pool((3, 4, 8, 9), (1, None, 5)),
    _avg_pool((2, 3, 8, 9), 2),
    _avg_pool((2, 3, 8, 9), (3, 2), stride=(2, 1), padding=1, ceil_mode=True, count_include_pad=False),
    _avg_pool((3, 8, 9), np.int64(3), np.int32(2), divisor_override=5),
    _max_pool((2, 3, 8, 9), 2),
    _max_pool((2, 3, 8, 9), (3, 2), stride=(2, 1), padding=1),
    _max_pool((3, 9, 8), [3], [2], ceil_mode=True),
    _flat_unpool(2),
    _flat_unpool((2, 2), stride=2, output_size=(6, 4)),
    _unpool(2),
    _unpool((2, 2, 2), stride=2, output_size=(2, 3, 4, 6, 4)),
    call("pad", "replication_pad1d_backward", (2, 3, 4), (1, 2), mode="replicate"),
    call("pad", "replication_pad2d_backward", (2, 3, 4, 5), (1, 2, 3, 4), mode="replicate"),
    call("pad", "replication_pad2d_backward", (3, 4, 5), [2, 0, 0, 1], "replicate"),
    call("pad", "replication_pad3d_backward", (2, 3, 2, 4, 5), (1, 2, 0, 1, 2, 2), mode="replicate"),
    call("pad", "reflection_pad1d_backward", (3, 4), (3, 2), mode="reflect"),
    call("pad", "reflection_pad2d_backward", (2, 3, 4, 5), (1, 2, 3, 3), mode="reflect"),
    call("pad", "reflection_pad3d_backward", (3, 3, 4, 5), (1, 2, 0, 1, 2, 2), mode="reflect"),
    _upsample(scale_factor=2),
    _upsample(size=(7, 3)),
    _upsample(scale_factor=(3.0, 1.5), mode="nearest"),
    _upsample(scale_factor=1.3, recompute_scale_factor=True),
    call("gelu", "gelu_backward_v2", (2, 3, 5)),
    call("gelu", "gelu_backward_v2", (4,), approximate="tanh"),
    call("relu", "threshold_backward", (2, 3, 5)),
    _named("threshold")((2, 3, 5), 0.2, -1.0),
    _named("hardswish")((3, 7)),
    _named("leaky_relu")((2, 3, 5)),
    _named("leaky_relu")((4,), 0.3),
    _named("sigmoid")((2, 3, 5)),
    _named("silu")((2, 3, 5)),
    _named("tanh")((2, 3, 5)),
)
"""Every function of one gradient with a counterpart in `torch.nn.functional`."""
STAY_LOCAL = (
    call("max_pool2d", "", (2, 3, 8, 9), 2, dilation=2),
    call("pad", "", (2, 3, 4, 5), (1, 2, 3, 4)),
    call("pad", "", (2, 3, 4, 5), (1, 2, 3, 4), mode="circular"),
    call("interpolate", "", (2, 3, 5, 4), scale_factor=1.3),
    *(
        call("interpolate", "", (2, 3, *(5, 4, 3)[:axes]), scale_factor=2, mode=mode)
        for axes, modes in {
            1: ("nearest", "nearest-exact", "linear", "area"),
            2: ("nearest-exact", "bilinear", "bicubic", "area"),
            3: ("nearest", "nearest-exact", "trilinear", "area"),
        }.items()
        for mode in modes
    ),
    call("interpolate", "", (2, 3, 5, 4), scale_factor=2, mode="bilinear", antialias=True),
)
"""Calls whose gradient no operator computes."""
