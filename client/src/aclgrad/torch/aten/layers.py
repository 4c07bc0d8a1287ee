"""Normalisations and their gradients."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad.torch.aten.steps import Row, Steps, Value, cast_if_any

aten: Final = torch.ops.aten


def _layer_norm(
    steps: Steps, input: Value, normalized_shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> Any:
    inputs = {"input": input, "weight": weight, "bias": bias}
    return steps("layer_norm", inputs, normalized_shape=normalized_shape, eps=eps)


def _layer_norm_backward(
    steps: Steps,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """The gradients of parameters have the parameters' types, whatever the operator's."""
    inputs = {"grad_output": grad_out, "input": input, "mean": mean, "rstd": rstd, "weight": weight}
    made = steps.masked("layer_norm_backward", inputs, output_mask, normalized_shape=normalized_shape)
    return _like(steps, made, input, weight, bias)


def _group_norm(
    steps: Steps,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    n: int,
    c: int,
    hxw: int,
    group: int,
    eps: float,
) -> Any:
    """The operator takes parameters of the input's type."""
    gamma, beta = (cast_if_any(steps, each, input.dtype) for each in (weight, bias))
    return steps("group_norm", {"self": input, "gamma": gamma, "beta": beta}, n=n, c=c, hxw=hxw, group=group, eps=eps)


def _group_norm_backward(
    steps: Steps,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    n: int,
    c: int,
    hxw: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    dtype = input.dtype
    mean, rstd, gamma = (cast_if_any(steps, each, dtype) for each in (mean, rstd, weight))
    inputs = {"grad_output": grad_out, "input": input, "mean": mean, "rstd": rstd, "gamma": gamma}
    made = steps.masked("group_norm_backward", inputs, output_mask, n=n, c=c, hxw=hxw, group=group)
    return _like(steps, made, input, weight, weight)


def _batch_norm(
    steps: Steps,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """The new running statistics come last, as in the functional form; other forms change them in place."""
    channels = input.shape[1]
    running = {
        "running_mean": np.zeros(channels, np.float32) if running_mean is None else running_mean,
        "running_var": np.ones(channels, np.float32) if running_var is None else running_var,
    }
    inputs = {"input": input, "weight": weight, "bias": bias, **running}
    made = steps("batch_norm", inputs, training=training, momentum=momentum, eps=eps)
    return made.output, made.save_mean, made.save_invstd, made.new_running_mean, made.new_running_var


def _batch_norm_backward(
    steps: Steps,
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Takes the statistics of the batch from `_batch_norm`, or the running ones without training."""
    used = {"save_mean": save_mean, "save_invstd": save_invstd}
    if not train:
        used = {"running_mean": running_mean, "running_var": running_var}
    parameters = {name: cast_if_any(steps, each, torch.float32) for name, each in {"weight": weight, **used}.items()}
    inputs = {"grad_output": grad_out, "input": input, **parameters}
    made = steps.masked("batch_norm_backward", inputs, output_mask, training=train, eps=eps)
    return _like(steps, made, input, weight, weight)


def _like(
    steps: Steps, made: Sequence[Value | None], input: Value, weight: Value | None, bias: Value | None
) -> tuple[Value | None, ...]:
    """Returns gradients in the types of their arguments; without parameters, PyTorch takes the input's."""
    of_weight, of_bias = (input.dtype if each is None else each.dtype for each in (weight, bias))
    return made[0], cast_if_any(steps, made[1], of_weight), cast_if_any(steps, made[2], of_bias)


ROWS: Final[Mapping[Any, Row]] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_group_norm.default: _group_norm,
    aten.native_group_norm_backward.default: _group_norm_backward,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    **dict.fromkeys(
        (
            aten.native_batch_norm.default,
            aten._native_batch_norm_legit.default,  # noqa: SLF001 - ATen's name
            aten._native_batch_norm_legit_functional.default,  # noqa: SLF001
        ),
        _batch_norm,
    ),
    aten._native_batch_norm_legit.no_stats: lambda steps, input, weight, bias, *rest: _batch_norm(  # noqa: SLF001
        steps, input, weight, bias, None, None, *rest
    ),
}
