"""The table of convolutions: calls of PyTorch's functions, with inputs, weights and biases of their own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .table import Call, random

OPERATOR = "convolution_backward"
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")


def convolution(
    function: str, input: tuple[int, ...], weight: tuple[int, ...], *, bias: bool = True, **options: Any
) -> Call:
    channels = weight[1] * options.get("groups", 1) if "transpose" in function else weight[0]
    values = random(*input), random(*weight, seed=2), random(channels, seed=3) if bias else None
    return Call(function, OPERATOR, values, (), options, ("input", "weight", "bias"), OUTPUTS)


def listed(axes: int, **options: Any) -> dict[str, Any]:
    """Returns all options of a convolution along so many axes, as an operator of PyTorch takes them."""
    lists = {"stride": (2,) * axes, "padding": (1,) * axes, "dilation": (1,) * axes}
    return {**lists, "groups": 2, **options}


CONVOLUTIONS = (
    convolution("conv1d", (2, 4, 9), (6, 2, 3), **listed(1, dilation=(2,))),
    convolution("conv1d", (4, 9), (3, 4, 3), padding="same"),
    convolution("conv1d", (2, 4, 9), (3, 4, 3), bias=False, padding="valid", stride=np.int64(2)),
    convolution("conv2d", (2, 4, 7, 6), (6, 2, 3, 2), **listed(2, stride=(2, 1), dilation=(1, 2))),
    convolution("conv2d", (2, 4, 7, 6), (4, 1, 3, 3), padding=1, groups=4),
    convolution("conv2d", (4, 7, 6), (6, 4, 1, 1), bias=False, stride=3),
    convolution("conv2d", (2, 4, 5, 6), (4, 4, 3, 5), padding="same", dilation=2),
    convolution("conv2d", (0, 4, 7, 6), (6, 4, 3, 3)),
    convolution("conv2d", (1, 3, 2, 2), (2, 3, 5, 5), padding=[3, 2]),
    convolution("conv3d", (2, 4, 4, 5, 3), (6, 2, 3, 2, 1), **listed(3)),
    convolution("conv3d", (4, 4, 5, 3), (2, 4, 2, 2, 2), bias=False, dilation=(1, 2, 1)),
    convolution("conv_transpose1d", (2, 4, 5), (4, 3, 3), **listed(1, output_padding=(1,))),
    convolution("conv_transpose1d", (4, 5), (4, 3, 3), bias=False, padding=1, dilation=3, output_padding=2),
    convolution("conv_transpose2d", (2, 4, 3, 4), (4, 3, 3, 2), **listed(2, output_padding=(1, 0))),
    convolution("conv_transpose2d", (4, 3, 4), (4, 3, 2, 2), stride=2),
    convolution("conv_transpose2d", (0, 4, 3, 4), (4, 3, 2, 2), stride=2),
    convolution("conv_transpose3d", (2, 4, 3, 2, 3), (4, 3, 3, 2, 3), **listed(3, output_padding=(1, 0, 1))),
    convolution("conv_transpose3d", (4, 3, 2, 3), (4, 3, 1, 2, 3), bias=False),
)
FULL = tuple(each for each in CONVOLUTIONS if each.input.numel())
ONE_OF_EACH = tuple({each.function: each for each in reversed(CONVOLUTIONS)}.values())


def stretched(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Is a transposed convolution by zeros in between and a plain one, whose derivatives PyTorch has in any order."""
    axes = weight.dim() - 2
    steps, pads, more, spread = (
        [each] * axes if isinstance(each, int) else each for each in (stride, padding, output_padding, dilation)
    )
    single = input.dim() == axes + 1
    images = input.unsqueeze(0) if single else input
    sizes = [(size - 1) * by + 1 for size, by in zip(images.shape[2:], steps, strict=True)]
    wide = images.new_zeros(*images.shape[:2], *sizes)
    wide[(..., *(slice(None, None, by) for by in steps))] = images
    around: list[int] = []
    for size, by, pad, end in zip(weight.shape[:1:-1], spread[::-1], pads[::-1], more[::-1], strict=True):
        around += [by * (size - 1) - pad, by * (size - 1) - pad + end]
    flipped = weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1).flip(tuple(range(2, axes + 2)))
    convolved: Callable[..., Tensor] = getattr(functional, f"conv{axes}d")
    result = convolved(functional.pad(wide, around), flipped, bias, dilation=dilation, groups=groups)
    return result.squeeze(0) if single else result


def exact(call: Call) -> tuple[Callable[..., Tensor], list[Any]]:
    """Returns the call's function with derivatives of any order, and the leaves in float64."""
    wide = call.in_dtype(torch.float64)
    return wide.bound(stretched if "transpose" in call.function else None), wide.leaves()


def close(found: Sequence[Tensor], expected: Sequence[Tensor], error: float = 1e-4) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        scale = float(theirs.abs().max()) if theirs.numel() else 1.0
        torch.testing.assert_close(mine.double(), theirs.double(), rtol=error, atol=error * max(scale, 1e-3))
