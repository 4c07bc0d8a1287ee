"""torch_npu's npu_rotary_mul by PyTorch, with its gradients as one step: the rotary position embedding."""

from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.choices import NotJudgedError

_MODES: Final = ("half", "interleave")
"""Modes by the operator's numbers."""


def mode_of(rotary_mode: str = "half", rotate: Tensor | None = None) -> int:
    """Returns the operator's number of a mode; raises NotJudgedError for modes that only a 950 has."""
    if rotate is not None:
        raise NotJudgedError("it rotates by a matrix of its own")
    if rotary_mode not in _MODES:
        raise NotJudgedError(f"rotary_mode is {rotary_mode}; {' and '.join(_MODES)} are judged")
    return _MODES.index(rotary_mode)


class _Rotated(torch.autograd.Function):
    """Computes in float32 or wider, and rounds each result once, like a card."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, r1: Tensor, r2: Tensor, mode: int) -> Tensor:
        ctx.save_for_backward(input, r1, r2)
        ctx.mode = mode
        wide, cosines, sines = _wide(input, r1, r2)
        return (wide * cosines + _turned(wide, mode) * sines).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, r1, r2 = ctx.saved_tensors
        grad, wide, cosines, sines = _wide(grad_output, input, r1, r2)
        of_input = grad * cosines - _turned(grad * sines, ctx.mode)
        return (
            of_input.to(input.dtype),
            (grad * wide).sum_to_size(r1.shape).to(r1.dtype),
            (grad * _turned(wide, ctx.mode)).sum_to_size(r2.shape).to(r2.dtype),
            None,
        )


def _wide(*tensors: Tensor) -> list[Tensor]:
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return [each.to(tensors[0].dtype).to(dtype) for each in tensors]


def _turned(tensor: Tensor, mode: int) -> Tensor:
    """Returns (-x2, x1) of the halves of the last axis, or of each even element and the next one."""
    if mode:
        return torch.stack((-tensor[..., 1::2], tensor[..., ::2]), -1).flatten(-2)
    first, second = tensor.chunk(2, -1)
    return torch.cat((-second, first), -1)


def npu_rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    """Returns `input * r1 + turned(input) * r2`."""
    result: Tensor = _Rotated.apply(input, r1, r2, mode_of(rotary_mode, rotate))
    return result
