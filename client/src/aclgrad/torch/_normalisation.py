"""Batch normalisation: PyTorch's kernel as a function that changes no argument, and the update of its statistics.

torch.compile and torch.func do not know that PyTorch's kernel changes its arguments. So the new running statistics are
outputs here, and copied into their tensors afterwards.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Returns the result, the batch's mean and 1 / deviation, and the new running statistics, empty if missing."""
    running = [None if each is None else each.clone() for each in (running_mean, running_var)]
    if input.numel():
        output = torch.ops.aten.native_batch_norm(input, weight, bias, *running, training, momentum, eps)
    else:  # PyTorch's kernel refuses it
        dtype = dtype_of_statistics(input, weight, bias, running_mean, running_var)
        statistics = [input.new_zeros(input.shape[1] if training else 0, dtype=dtype) for _ in range(2)]
        output = (input.clone(), *statistics)
    return (*output, *(input.new_empty(0) if each is None else each for each in running))


def batch_norm_shapes(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    *_: object,
) -> tuple[Tensor, ...]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    dtype = dtype_of_statistics(input, weight, bias, running_mean, running_var)
    statistics = (input.new_empty(input.shape[1] if training else 0, dtype=dtype) for _ in range(2))
    running = (input.new_empty(0) if each is None else torch.empty_like(each) for each in (running_mean, running_var))
    return (torch.empty_like(input, memory_format=suggest_memory_format(input)), *statistics, *running)


def dtype_of_statistics(input: Tensor, *parameters: Tensor | None) -> torch.dtype:
    """Returns the dtype in which kernels save statistics: on a CPU that of the parameters."""
    if input.device.type != "cpu":
        return torch.float32
    return next((each.dtype for each in parameters if each is not None), input.dtype)


def fused_rms_norm(input: Tensor, normalized_shape: Sequence[int], gamma: Tensor, eps: float | None) -> Any:
    """Returns the result and 1 / sqrt(mean square + eps), the latter in float32 for the operator."""
    fused = "_fused_rms_norm"
    normalised, rstd = getattr(torch.ops.aten, fused)(input, normalized_shape, gamma, eps)
    return normalised, rstd.float()


def layer_norm_shapes(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, *_: object
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    rows = (*input.shape[: -len(normalized_shape)], *(1 for _ in normalized_shape))
    dtype = dtype_of_statistics(input, weight, bias)
    mean, rstd = (input.new_empty(rows, dtype=dtype) for _ in range(2))
    return torch.empty_like(input, memory_format=torch.contiguous_format), mean, rstd


def group_norm(input: Tensor, num_groups: int, gamma: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Returns the result, and the mean and 1 / deviation of each group."""
    strided = input.contiguous(memory_format=suggest_memory_format(input))
    sizes = (input.shape[0], input.shape[1], math.prod(input.shape[2:]))
    return torch.ops.aten.native_group_norm(strided, gamma, bias, *sizes, num_groups, eps)


def group_norm_shapes(
    input: Tensor, num_groups: int, gamma: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    dtype = dtype_of_statistics(input, gamma, bias)
    statistics = (input.new_empty((input.shape[0], num_groups), dtype=dtype) for _ in range(2))
    return (torch.empty_like(input, memory_format=suggest_memory_format(input)), *statistics)


def of_one(*parameters: Tensor | None) -> list[Tensor | None]:
    """Returns parameters of one channel instead of any number."""
    return [None if each is None else each.new_empty(1) for each in parameters]


class Update(torch.autograd.Function):
    """Copies new running statistics into their tensor, within torch.func also into a captured one."""

    @staticmethod
    def forward(running: Tensor, new: Tensor) -> Tensor:
        # Like PyTorch's kernel: a graph may need the tensor, but not its values.
        with torch.autograd._unsafe_preserve_version_counter(running):  # noqa: SLF001
            running.copy_(new)
        return new.new_empty(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, running: Tensor, new: Tensor) -> Any:
        return Update.apply(running.movedim(in_dims[0], 0), new.movedim(in_dims[1], 0)), None


def update(running: Tensor | None, new: Tensor) -> None:
    """Copies the new statistics into the tensor, if there is one."""
    if running is None:
        return
    if torch.compiler.is_compiling():
        running.copy_(new)
    else:
        Update.apply(running, new)
