"""Normalisations, whose operators have several gradients and take the statistics that the forward pass saved."""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from aclgrad.torch._batch_norm import batch_norm, batch_norm_shapes, dtype_of_statistics, sent_statistics
from aclgrad.torch._folding import call_each, fold_into_channels, fold_into_rows
from aclgrad.torch._rows.row import Known, Operation

aten: Final = torch.ops.aten

_BATCH_NORM: Final = (
    "Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool training, "
    "float momentum, float eps"
)
_RMS_NORM: Final = "_fused_rms_norm"


def _fused_rms_norm(input: Tensor, normalized_shape: Sequence[int], gamma: Tensor, eps: float | None) -> Any:
    """Returns the result and 1 / sqrt(mean square + eps); the operator wants the latter in float32."""
    normalised, rstd = getattr(aten, _RMS_NORM)(input, normalized_shape, gamma, eps)
    return normalised, rstd.float()


def _layer_norm_shapes(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, *_: object
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    rows = (*input.shape[: -len(normalized_shape)], *(1 for _ in normalized_shape))
    dtype = dtype_of_statistics(input, weight, bias)
    mean, rstd = (input.new_empty(rows, dtype=dtype) for _ in range(2))
    return torch.empty_like(input, memory_format=torch.contiguous_format), mean, rstd


def _group_norm(input: Tensor, num_groups: int, gamma: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """Returns the result, and the mean and 1 / deviation of each group."""
    strided = input.contiguous(memory_format=suggest_memory_format(input))
    sizes = (input.shape[0], input.shape[1], math.prod(input.shape[2:]))
    return aten.native_group_norm(strided, gamma, bias, *sizes, num_groups, eps)


def _group_norm_shapes(
    input: Tensor, num_groups: int, gamma: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    """Returns empty tensors of the types of the results, which PyTorch's own rules for fake tensors get wrong."""
    dtype = dtype_of_statistics(input, gamma, bias)
    statistics = (input.new_empty((input.shape[0], num_groups), dtype=dtype) for _ in range(2))
    return (torch.empty_like(input, memory_format=suggest_memory_format(input)), *statistics)


def _group_norm_sizes(arguments: Known, output: Any) -> dict[str, Any]:
    """Returns the saved statistics and the operator's attributes, which the shape has."""
    shape = arguments["input"].shape
    sizes = {"n": shape[0], "c": shape[1], "hxw": math.prod(shape[2:]), "group": arguments["num_groups"]}
    return {"mean": output[1], "rstd": output[2], **sizes}


def _sent_groups(known: Known) -> dict[str, Any]:
    """Returns what the operator takes: statistics and weight in the dtype of the input."""
    dtype = known["input"].dtype
    return {**known, **{name: known[name].to(dtype) for name in ("mean", "rstd", "gamma") if known[name] is not None}}


def _of_one(*parameters: Tensor | None) -> list[Tensor | None]:
    """Returns parameters of one channel in the place of those of any."""
    return [None if each is None else each.new_empty(1) for each in parameters]


ROWS: Final = (
    Operation(
        "layer_norm",
        "layer_norm_backward",
        "Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps",
        aten.native_layer_norm,
        _layer_norm_shapes,
        more=lambda _, output: {"mean": output[1], "rstd": output[2]},
        saved=lambda _: ("bias", "input", "weight", "mean", "rstd"),
        cast_by=lambda input, _, *rest: torch.layer_norm(input.new_empty(0, 1), (1,), *_of_one(*rest[:2])),
        is_linear=False,
        fold=fold_into_rows,
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "rms_norm",
        "rms_norm_grad",
        "Tensor input, SymInt[] normalized_shape, Tensor gamma, float? eps",
        _fused_rms_norm,
        more=lambda _, output: {"rstd": output[1]},
        saved=lambda _: ("input", "gamma", "rstd"),
        cast_by=lambda input, *_: torch.rms_norm(input.new_empty(0, 1), (1,)),
        is_linear=False,
        fold=fold_into_rows,
        returns="(Tensor, Tensor)",
    ),
    Operation(
        "group_norm",
        "group_norm_backward",
        "Tensor input, int num_groups, Tensor? gamma, Tensor? bias, float eps",
        _group_norm,
        _group_norm_shapes,
        more=_group_norm_sizes,
        saved=lambda _: ("input", "gamma", "mean", "rstd"),
        cast_by=lambda input, _, *rest: torch.group_norm(input.new_empty(0, 1, 1), 1, *_of_one(*rest[:2])),
        sent=_sent_groups,
        is_linear=False,
        fold=call_each,
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "batch_norm",
        "batch_norm_backward",
        _BATCH_NORM,
        batch_norm,
        batch_norm_shapes,
        more=lambda _, output: {"save_mean": output[1], "save_invstd": output[2]},
        saved=lambda _: ("input", "running_mean", "running_var", "weight", "save_mean", "save_invstd"),
        cast_by=lambda input, *rest: torch.batch_norm(
            input.new_empty(2 if input.numel() else 0, 1), *_of_one(*rest[2:4]), None, None, True, 0.0, 1.0, False
        ),
        sent=sent_statistics,
        is_linear=False,
        fold=fold_into_channels,
        returns="(Tensor, Tensor, Tensor, Tensor, Tensor)",
    ),
)
