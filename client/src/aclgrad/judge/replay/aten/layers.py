"""Normalisations, losses and attention."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from aclgrad.judge.replay.aten.steps import Row, Steps, Value, cast, reshaped
from aclgrad.torch.calls import LocalError

aten: Final = torch.ops.aten


def _layer_norm(
    steps: Steps, input: Value, normalized_shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> Any:
    inputs = {"input": input, "weight": weight, "bias": bias}
    return steps("layer_norm", inputs, normalized_shape=normalized_shape, eps=eps)


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
    inputs = {"self": input, "gamma": weight, "beta": bias}
    return steps("group_norm", inputs, n=n, c=c, hxw=hxw, group=group, eps=eps)


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


def _loss(operator: str, attribute: str = "") -> Row:
    """Returns the row of a loss, which may have one further number."""

    def add(steps: Steps, self: Value, target: Value, reduction: int = 1, number: float = 1.0, **beta: float) -> Value:
        more = {attribute: float(beta.get(attribute, number))} if attribute else {}
        return steps(operator, {"self": self, "target": target}, reduction=reduction, **more)

    return add


def _huber(steps: Steps, self: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    smooth = steps("smooth_l1_loss", {"self": self, "target": target}, reduction=reduction, beta=float(delta))
    return steps("muls", {"self": smooth}, other=delta)


def _logits_loss(
    steps: Steps,
    self: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = 1,
) -> Value:
    inputs = {"self": self, "target": target, "weight": weight, "pos_weight": pos_weight}
    return steps("binary_cross_entropy_with_logits", inputs, reduction=reduction)


def _nll_loss(steps: Steps, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Any:
    weights = np.ones(self.shape[-1], self.dtype) if weight is None else weight
    inputs = {"self": self, "target": target, "weight": weights}
    return steps("nll_loss", inputs, reduction=reduction, ignore_index=ignore_index)


def _nll_loss2d(
    steps: Steps, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    rows = reshaped(steps, self.transpose(0, 2, 3, 1), (-1, self.shape[1]))
    out, total = _nll_loss(steps, rows, target.reshape(-1), weight, reduction, ignore_index)
    return (out if reduction else out.reshape(target.shape)), total


def _attention(
    steps: Steps,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, None]:
    """Scores and shares are float32, as within PyTorch's kernel. It gives 0 for a row that is masked as a whole."""
    if query.shape[:2] != key.shape[:2] or dropout_p:
        raise LocalError("no operator computes attention with dropout, or with heads that share keys")
    if isinstance(attn_mask, np.ndarray) and (attn_mask == -np.inf).all(-1).any():
        raise LocalError("no operator computes attention with a row that is masked as a whole")
    queries, keys, values = (cast(steps, each, torch.float32) for each in (query, key, value))
    scores = steps("matmul", {"self": queries, "mat2": keys.transpose(0, 1, 3, 2)})
    scores = steps("muls", {"self": scores}, other=query.shape[-1] ** -0.5 if scale is None else scale)
    masks = [np.triu(np.full(scores.shape[-2:], -np.inf, np.float32), 1)] if is_causal else []
    for mask in [*masks, *([] if attn_mask is None else [attn_mask])]:
        scores = steps("add", {"self": scores, "other": mask})
    shares = steps("softmax", {"self": scores}, dim=-1)
    return cast(steps, steps("matmul", {"self": shares, "mat2": values}), query.dtype), None


ROWS: Final[Mapping[Any, Row]] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
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
    aten.mse_loss.default: _loss("mse_loss"),
    aten.smooth_l1_loss.default: _loss("smooth_l1_loss", "beta"),
    aten.huber_loss.default: _huber,
    aten.binary_cross_entropy_with_logits.default: _logits_loss,
    aten.nll_loss_forward.default: _nll_loss,
    aten.nll_loss2d_forward.default: _nll_loss2d,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,  # noqa: SLF001
}
