"""Attention and its gradients: one operator each, or composites for products that lack it."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from aclgrad.composites.attention import masks_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.torch.aten.steps import Row, Steps, Value, above, cast, scalar_like
from aclgrad.torch.calls import LocalError

aten: Final = torch.ops.aten
FORWARD: Final = aten._scaled_dot_product_flash_attention_for_cpu.default  # noqa: SLF001 - ATen's name
BACKWARD: Final = aten._scaled_dot_product_flash_attention_for_cpu_backward.default  # noqa: SLF001
_LEAST: Final = -3.2e38
"""Logarithms of fully masked rows: below those of any other row, and far above masked scores."""
_CAUSAL: Final = 2
"""The sparse mode in which a query sees keys up to its own position, counted from the first."""


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
    """Also returns the logarithms of the scores' sums: these steps run only if they are wanted."""
    if not _is_fused(steps):
        return _composed(steps, query, key, value, dropout_p, is_causal, attn_mask, scale)
    version, hidden = _hidden(steps, query, key, dropout_p, attn_mask, "real_shift")
    inputs = {"query": _rows(query), "key": _rows(key), "value": _rows(value), **hidden}
    made = steps(f"flash_attention_score{version}", inputs, **_numbers(is_causal, scale))
    largest, sums = (each[..., 0] for each in made[:2])
    logarithms = steps("add", {"self": largest, "other": steps("log", {"self": sums})})
    return _rows(made[2]), steps("clamp", {"self": logarithms}, clip_value_min=_LEAST)


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
    """Takes the logarithms as the largest scores, and 1 as the sums, which gives the same weights."""
    if not _is_fused(steps):
        arguments = query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale
        return _composed_backward(steps, grad_out, *arguments)
    version, hidden = _hidden(steps, query, key, dropout_p, attn_mask, "pse_shift")
    inputs = {
        "query": _rows(query),
        "key_in": _rows(key),
        "value": _rows(value),
        "dy": _rows(grad_out),
        **hidden,
        "softmax_max": logsumexp,
        "softmax_sum": np.broadcast_to(np.float32(1), logsumexp.shape),
        "attention_in": _rows(out),
    }
    made = steps(f"flash_attention_score_grad{version}", inputs, **_numbers(is_causal, scale))
    of_query, of_key, of_value = map(_rows, made)
    return of_query, of_key, of_value


def _is_fused(steps: Steps) -> bool:
    return steps.product is None or steps.product in OPERATORS["flash_attention_score_grad"].products


def _rows(heads: Value) -> Value:
    """Returns heads as rows of all heads, the layout of models, or rows as heads."""
    return heads.transpose(0, 2, 1, 3)


def _numbers(is_causal: bool, scale: float | None) -> dict[str, Any]:
    return {"scale_value": scale, "input_layout": "BSND", "sparse_mode": _CAUSAL if is_causal else 0}


def _hidden(
    steps: Steps, query: Value, key: Value, dropout_p: float, mask: Value | None, bias: str
) -> tuple[str, dict[str, Value]]:
    """Returns the suffix of the operator that takes this mask, and the mask by its input's name."""
    if dropout_p:
        raise LocalError("no operator computes attention with dropout")
    if mask is None:
        return "", {}
    masks = masks_of(steps.program, mask, (*query.shape[:3], key.shape[2]), query.dtype)
    given = {"atten_mask": masks.mask, bias: masks.bias}
    return "" if masks.bias is None else "_v2", {name: each for name, each in given.items() if each is not None}


def _shares(
    steps: Steps, query: Value, key: Value, dropout_p: float, is_causal: bool, mask: Value | None, scale: float | None
) -> tuple[Value, Value, Value, Value, float]:
    """Returns the queries' weights of values, the scores, the scaled queries, keys, and the scale.

    All are float32, as within PyTorch's kernel, which gives 0 for a fully masked row.
    """
    if query.shape[:2] != key.shape[:2] or dropout_p:
        raise LocalError("no operator computes attention with dropout, or with heads that share keys")
    if isinstance(mask, np.ndarray) and (mask == -np.inf).all(-1).any():
        raise LocalError("no operator computes attention with a row that is masked as a whole")
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    queries, keys = (cast(steps, each, torch.float32) for each in (query, key))
    # Queries have fewer elements than scores.
    queries = steps("muls", {"self": queries}, other=float(factor))
    scores = steps("matmul", {"self": queries, "mat2": keys.transpose(0, 1, 3, 2)})
    if mask is not None:
        scores = steps("add", {"self": scores, "other": mask})
    if is_causal:
        hidden = {"condition": above(steps, *scores.shape[-2:]), "self": scalar_like(scores, -np.inf)}
        scores = steps("s_where", {**hidden, "other": scores})
    return steps("softmax", {"self": scores}, dim=-1), scores, queries, keys, factor


def _composed(
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


def _composed_backward(
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
    """Recomputes the weights, like PyTorch's kernel: those of all layers would fill the memory."""
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


ROWS: Final[Mapping[Any, Row]] = {FORWARD: _attention, BACKWARD: _attention_backward}
