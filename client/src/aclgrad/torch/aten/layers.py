"""Normalisations, attention, and their gradients."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad.torch.aten.steps import Row, Steps, Value, above, cast, cast_if_any, scalar_like
from aclgrad.torch.calls import LocalError

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
    """The gradients of parameters have the types of these, whichever the operator has."""
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
    """The running statistics come last, as in the functional form; the others change them in place."""
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
    """Takes the statistics of the batch as `_batch_norm` returned them, or those that were running without training."""
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
    """Returns gradients in the types of what they are gradients of; PyTorch takes the input's without parameters."""
    of_weight, of_bias = (input.dtype if each is None else each.dtype for each in (weight, bias))
    return made[0], cast_if_any(steps, made[1], of_weight), cast_if_any(steps, made[2], of_bias)


def _shares(
    steps: Steps, query: Value, key: Value, dropout_p: float, is_causal: bool, mask: Value | None, scale: float | None
) -> tuple[Value, Value, Value, Value, float]:
    """Returns what queries take of values, the scores, queries that are scaled, keys, and the scale.

    All are float32, as within PyTorch's kernel. It gives 0 for a row that is masked as a whole.
    """
    if query.shape[:2] != key.shape[:2] or dropout_p:
        raise LocalError("no operator computes attention with dropout, or with heads that share keys")
    if isinstance(mask, np.ndarray) and (mask == -np.inf).all(-1).any():
        raise LocalError("no operator computes attention with a row that is masked as a whole")
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    queries, keys = (cast(steps, each, torch.float32) for each in (query, key))
    # There are fewer elements of queries than scores.
    queries = steps("muls", {"self": queries}, other=float(factor))
    scores = steps("matmul", {"self": queries, "mat2": keys.transpose(0, 1, 3, 2)})
    if mask is not None:
        scores = steps("add", {"self": scores, "other": mask})
    if is_causal:
        hidden = {"condition": above(steps, *scores.shape[-2:]), "self": scalar_like(scores, -np.inf)}
        scores = steps("s_where", {**hidden, "other": scores})
    return steps("softmax", {"self": scores}, dim=-1), scores, queries, keys, factor


def _attention(
    steps: Steps,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """Also returns the logarithms of the scores' sums, by the largest: these steps run only if they are wanted."""
    shares, scores, *_ = _shares(steps, query, key, dropout_p, is_causal, attn_mask, scale)
    largest, share = (steps("amax", {"self": each}, dim=(-1,)) for each in (scores, shares))
    sums = steps("sub", {"self": largest, "other": steps("log", {"self": share})})
    values = cast(steps, value, torch.float32)
    return cast(steps, steps("matmul", {"self": shares, "mat2": values}), query.dtype), sums


def _attention_backward(
    steps: Steps,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """Computes the shares once more, as PyTorch's kernel does: kept, those of all layers would fill the memory."""
    shares, _, queries, keys, factor = _shares(steps, query, key, dropout_p, is_causal, attn_mask, scale)
    grad, values = (cast(steps, each, torch.float32) for each in (grad_out, value))
    of_values = steps("matmul", {"self": shares.transpose(0, 1, 3, 2), "mat2": grad})
    of_shares = steps("matmul", {"self": grad, "mat2": values.transpose(0, 1, 3, 2)})
    of_scores = steps("softmax_backward", {"grad_output": of_shares, "output": shares}, dim=-1)
    of_queries = steps("muls", {"self": steps("matmul", {"self": of_scores, "mat2": keys})}, other=float(factor))
    of_keys = steps("matmul", {"self": of_scores.transpose(0, 1, 3, 2), "mat2": queries})
    found = (of_queries, query), (of_keys, key), (of_values, value)
    of_query, of_key, of_value = (cast(steps, gradient, of.dtype) for gradient, of in found)
    return of_query, of_key, of_value


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
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,  # noqa: SLF001
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention_backward,  # noqa: SLF001
}
