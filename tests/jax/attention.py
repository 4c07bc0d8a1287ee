"""Attention of a few small tensors: its gradients as sums in float64, and calls with all that JAX's function takes."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

B, T, S, N, K, H = 2, 5, 7, 4, 2, 8
ALL = (0, 1, 2)
GENERATOR = np.random.default_rng(61)


def drawn(*shape: int) -> Array:
    return GENERATOR.standard_normal(shape, np.float32)


def operands(*leading: int, heads: int = K, keys: int = S) -> list[Array]:
    return [drawn(*leading, T, N, H), *(drawn(*leading, keys, heads, H) for _ in range(2))]


def mask_of(*shape: int) -> Array:
    """Returns a mask with which the third query of the first sequence sees nothing, if it has queries of its own."""
    found: Array = GENERATOR.random(shape) < 0.6
    if shape[-2] > 1:
        found[..., 2, :] = False
    return found


def seen_by(lengths: Any = None, key_lengths: Any = None, window: Any = None, is_causal: bool = False) -> Array:
    """Returns which keys a query sees, one by one."""
    found = np.ones((B, 1, T, S), np.bool_)
    for batch, _, query, key in np.ndindex(found.shape):
        is_within = lengths is None or query < lengths[batch]
        is_within &= key_lengths is None or key < key_lengths[batch]
        is_within &= window is None or query - window[0] <= key <= query + window[1]
        found[batch, 0, query, key] = is_within and (key <= query or not is_causal)
    return found


def right(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    *,
    bias: Any = 0.0,
    seen: Any = True,
    scale: float = H**-0.5,
    lengths: Any = None,
) -> tuple[Array, ...]:
    """Returns attention and its gradients in float64: those of query, key, value, and of all scores.

    `grad` is the gradient of the output. A query without a key has the mean of all values.
    """
    shape, groups = query.shape, (*query.shape[:2], key.shape[2], query.shape[2] // key.shape[2], query.shape[3])
    query, grad, key, value = (np.asarray(each, np.float64) for each in (query, grad, key, value))
    kept = np.ones((1, 1, 1, 1)) if lengths is None else (np.arange(shape[1]) < lengths[:, None])[..., None, None]
    grad = grad * kept
    grads, queries = grad.reshape(groups), query.reshape(groups)
    scores = np.einsum("btkgh,bskh->bkgts", queries, key) * scale
    whole = (shape[0], shape[2], shape[1], key.shape[1])
    sees, added = (np.broadcast_to(each, whole).reshape(scores.shape) for each in (seen, bias))
    scores = np.where(sees, scores + added, np.finfo(np.float64).min)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    shares = powers / powers.sum(-1, keepdims=True)
    output = np.einsum("bkgts,bskh->btkgh", shares, value)
    of_shares = np.einsum("btkgh,bskh->bkgts", grads, value)
    of_scores = np.where(sees, shares * (of_shares - (shares * of_shares).sum(-1, keepdims=True)), 0)
    of_query = np.einsum("bkgts,bskh->btkgh", of_scores, key).reshape(shape) * scale
    of_key = np.einsum("bkgts,btkgh->bskh", of_scores, queries) * scale
    of_value = np.einsum("bkgts,btkgh->bskh", shares, grads)
    return output.reshape(shape) * kept, of_query, of_key, of_value, of_scores.reshape(whole)


LENGTHS, KEY_LENGTHS = np.array([3, 5], np.int32), np.array([4, 0], np.int32)
MASKS = tuple(mask_of(*each) for each in ((B, N, T, S), (B, 1, T, S), (1, N, T, S), (T, 1)))
BIAS = drawn(B, N, T, S)
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "causal": ({"is_causal": True}, {"seen": seen_by(is_causal=True)}),
    **{f"mask{each.shape}": ({"mask": each}, {"seen": each}) for each in MASKS},
    "mask-causal": ({"mask": MASKS[0], "is_causal": True}, {"seen": MASKS[0] & seen_by(is_causal=True)}),
    **{f"bias{each.shape}": ({"bias": each}, {"bias": each}) for each in (BIAS, BIAS[:1], BIAS[0, 0, 0])},
    "bias-mask": ({"bias": BIAS[:1], "mask": MASKS[1]}, {"bias": BIAS[:1], "seen": MASKS[1]}),
    "bias-causal": ({"bias": BIAS, "is_causal": True}, {"bias": BIAS, "seen": seen_by(is_causal=True)}),
    "lengths": (
        {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": KEY_LENGTHS},
        {"seen": seen_by(LENGTHS, KEY_LENGTHS), "lengths": LENGTHS},
    ),
    "window": ({"local_window_size": (2, 1), "scale": 0.7}, {"seen": seen_by(window=(2, 1)), "scale": 0.7}),
    "window-causal": ({"local_window_size": 1, "is_causal": True}, {"seen": seen_by(window=(1, 1), is_causal=True)}),
}
