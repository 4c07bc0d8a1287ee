"""Group normalisation: PyTorch's own kernel, and what the operator of its gradients takes."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from aclgrad.torch._batch_norm import dtype_of_statistics


def group_norm(input: Tensor, num_groups: int, gamma: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Returns the result, and the mean and 1 / deviation of each group."""
    placed = input.contiguous(memory_format=suggest_memory_format(input))
    sizes = (input.shape[0], input.shape[1], math.prod(input.shape[2:]))
    return torch.ops.aten.native_group_norm(placed, gamma, bias, *sizes, num_groups, eps)


def group_norm_shapes(
    input: Tensor, num_groups: int, gamma: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    dtype = dtype_of_statistics(input, gamma, bias)
    statistics = (input.new_empty((input.shape[0], num_groups), dtype=dtype) for _ in range(2))
    return (torch.empty_like(input, memory_format=suggest_memory_format(input)), *statistics)


def group_norm_sizes(arguments: Mapping[str, Any], output: Any) -> dict[str, Any]:
    """Returns the saved statistics and the operator's attributes, which the shape has."""
    shape = arguments["input"].shape
    sizes = {"n": shape[0], "c": shape[1], "hxw": math.prod(shape[2:]), "group": arguments["num_groups"]}
    return {"mean": output[1], "rstd": output[2], **sizes}


def sent_groups(known: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the operator takes: statistics and weight in the dtype of the input."""
    dtype = known["input"].dtype
    return {**known, **{name: known[name].to(dtype) for name in ("mean", "rstd", "gamma") if known[name] is not None}}
