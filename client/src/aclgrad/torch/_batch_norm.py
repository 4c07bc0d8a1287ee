"""Batch normalisation: PyTorch's own kernel as a function that changes no argument, and the statistics that it updates.

A graph of torch.compile, and the transforms of torch.func, know of no operator that changes its arguments unseen, as
PyTorch's kernel does. So the new running statistics are outputs, which are put into their tensors afterwards.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

_RUNNING: Final = ("running_mean", "running_var")
_OF_THE_BATCH: Final = ("save_mean", "save_invstd")


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
    """Returns the result, the batch's mean and 1 / deviation, and the new running statistics; what is none is empty."""
    running = [None if each is None else each.clone() for each in (running_mean, running_var)]
    if input.numel():
        output = torch.ops.aten.native_batch_norm(input, weight, bias, *running, training, momentum, eps)
    else:  # PyTorch's kernel refuses it
        dtype = dtype_of_statistics(input, weight, bias, running_mean, running_var)
        statistics = [input.new_zeros(input.shape[1] if training else 0, dtype=dtype) for _ in _OF_THE_BATCH]
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
    statistics = (input.new_empty(input.shape[1] if training else 0, dtype=dtype) for _ in _OF_THE_BATCH)
    running = (input.new_empty(0) if each is None else torch.empty_like(each) for each in (running_mean, running_var))
    return (torch.empty_like(input, memory_format=suggest_memory_format(input)), *statistics, *running)


def dtype_of_statistics(input: Tensor, *parameters: Tensor | None) -> torch.dtype:
    """Returns the dtype in which kernels save statistics: on a CPU that of the parameters."""
    if input.device.type != "cpu":
        return torch.float32
    return next((each.dtype for each in parameters if each is not None), input.dtype)


def sent_statistics(known: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the operator takes: the statistics that were used, in float32."""
    unused = _RUNNING if known["training"] else _OF_THE_BATCH
    given = {name: known[name] for name in ("weight", *_RUNNING, *_OF_THE_BATCH)}
    sent = {name: None if each is None or name in unused else each.float() for name, each in given.items()}
    return {**known, **sent}


class Update(torch.autograd.Function):
    """Puts new running statistics into their tensor. Within torch.func it reaches one that a function has captured."""

    @staticmethod
    def forward(running: Tensor, new: Tensor) -> Tensor:
        # As PyTorch's kernel: a graph may need the tensor, and not its values.
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
    """Puts the new statistics into the tensor, if there is one."""
    if running is None:
        return
    if torch.compiler.is_compiling():
        running.copy_(new)
    else:
        Update.apply(running, new)
