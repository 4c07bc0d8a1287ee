"""Attention and its gradients, head by head. `forward` is the function that the gradients are of."""

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.attention.layouts import heads_of, is_flat, laid_out

LOWEST: Final = float(np.finfo(np.float32).min)
"""What a score that is masked out becomes."""
_LANES: Final = 8
_SCORES: Final = 2**22
"""The most scores at once: the memory of a call follows the positions, and not their square."""


class _Head(NamedTuple):
    """Queries of one head of one sequence in float64, with the heads of key and value that they use."""

    place: tuple[int, int, slice]
    shared: tuple[int, int]
    query: Array
    key: Array
    value: Array
    scores: Array


class _Call(NamedTuple):
    """The arguments that all four operators have, by the names of the forward operator."""

    query: Array
    key: Array
    value: Array
    bias: Array | None
    mask: Array | None
    scale_value: float | None
    head_num: int | None
    layout: str
    sparse_mode: int

    @property
    def heads(self) -> int:
        return int(self.head_num or 0 if is_flat(self.layout) else self.query.shape[self.layout.index("N")])

    @property
    def kv_heads(self) -> int:
        if is_flat(self.layout):
            return int(self.key.shape[2] // max(self.query.shape[2] // self.heads, 1))
        return int(self.key.shape[self.layout.index("N")])

    def of_query(self, array: Array) -> Array:
        return heads_of(array.astype(np.float64), self.layout, self.heads)

    def of_key(self, array: Array) -> Array:
        return heads_of(array.astype(np.float64), self.layout, self.kv_heads)

    @property
    def scale(self) -> float:
        size = self.of_query(self.query).shape[-1]
        given = 1 / math.sqrt(max(size, 1)) if self.scale_value is None else self.scale_value
        return float(np.float32(given))

    def each(self) -> Iterator[_Head]:
        """Yields all heads of all sequences, in blocks of queries."""
        queries, keys, values = self.of_query(self.query), self.of_key(self.key), self.of_key(self.value)
        whole = (*queries.shape[:3], keys.shape[2])
        bias = None if self.bias is None else np.broadcast_to(self.bias.astype(np.float64), whole)
        mask = None if self.mask is None else np.broadcast_to(self.mask.astype(bool), whole)
        rows = max(_SCORES // max(whole[3], 1), 1)
        for batch, head, block in np.ndindex(*whole[:2], -(-whole[2] // rows)):
            own = slice(block * rows, min((block + 1) * rows, whole[2]))
            of_keys = head // (whole[1] // max(keys.shape[1], 1))
            query, key, value = queries[batch, head, own], keys[batch, of_keys], values[batch, of_keys]
            scores = query @ key.T * self.scale
            if bias is not None:
                scores = scores + bias[batch, head, own]
            if mask is not None:
                scores = np.where(mask[batch, head, own], LOWEST, scores)
            if self.sparse_mode > 1:
                # The last key that a query sees, counted from the first query and key or from the last ones.
                last = np.arange(whole[2])[own, None] + (whole[3] - whole[2] if self.sparse_mode == 3 else 0)
                scores = np.where(np.arange(whole[3]) > last, LOWEST, scores)
            yield _Head((batch, head, own), (batch, of_keys), query, key, value, scores)


def _gradients(
    call: _Call, dy: Array, softmax_max: Array, softmax_sum: Array, attention_in: Array
) -> tuple[Array, Array, Array]:
    """The statistics are taken as they are: rows of probabilities need not add up to 1."""
    dq, dk, dv = (
        np.zeros(each.shape) for each in (call.of_query(call.query), *map(call.of_key, (call.key, call.value)))
    )
    grads, results = call.of_query(dy), call.of_query(attention_in)
    most, sums = (
        (each[..., 0] if each.ndim == 4 else each).astype(np.float64)[..., None] for each in (softmax_max, softmax_sum)
    )
    for head in call.each():
        grad, result = grads[head.place], results[head.place]
        shares = np.exp(head.scores - most[head.place]) / sums[head.place]
        of_scores = shares * (grad @ head.value.T - (grad * result).sum(-1, keepdims=True))
        dq[head.place] = of_scores @ head.key * call.scale
        dk[head.shared] += of_scores.T @ head.query * call.scale
        dv[head.shared] += shares.T @ grad
    return laid_out(dq, call.layout), laid_out(dk, call.layout), laid_out(dv, call.layout)


def _attention(call: _Call) -> tuple[Array, Array, Array]:
    """Of rows without any key, and of those whose keys are all masked out, the result is 0."""
    whole = call.of_query(call.query).shape[:3]
    most, sums = np.zeros(whole), np.zeros(whole)
    results = np.zeros((*whole, call.of_key(call.value).shape[-1]))
    for head in call.each():
        if not head.scores.size:
            continue
        largest = head.scores.max(-1, keepdims=True)
        powers = np.exp(head.scores - largest)
        total = powers.sum(-1, keepdims=True)
        is_masked = (head.scores == LOWEST).all(-1)
        results[head.place] = np.where(is_masked[:, None], 0.0, powers / total @ head.value)
        most[head.place] = largest[:, 0]
        sums[head.place] = np.where(is_masked, -LOWEST, total[:, 0])
    lanes = [np.repeat(each[..., None], _LANES, -1) for each in (most, sums)]
    return lanes[0], lanes[1], laid_out(results, call.layout)


def flash_attention_score(
    query: Array,
    key: Array,
    value: Array,
    atten_mask: Array | None = None,
    scale_value: float | None = None,
    head_num: int | None = None,
    input_layout: str = "BNSD",
    sparse_mode: int = 0,
) -> tuple[Array, Array, Array]:
    """The statistics of the rows, and the result."""
    return _attention(_Call(query, key, value, None, atten_mask, scale_value, head_num, input_layout, sparse_mode))


def flash_attention_score_v2(
    query: Array,
    key: Array,
    value: Array,
    real_shift: Array,
    atten_mask: Array | None = None,
    scale_value: float | None = None,
    head_num: int | None = None,
    input_layout: str = "BNSD",
    sparse_mode: int = 0,
) -> tuple[Array, Array, Array]:
    """The same with what is added to the scaled products."""
    return _attention(
        _Call(query, key, value, real_shift, atten_mask, scale_value, head_num, input_layout, sparse_mode)
    )


def flash_attention_score_grad(
    query: Array,
    key_in: Array,
    value: Array,
    dy: Array,
    softmax_max: Array,
    softmax_sum: Array,
    attention_in: Array,
    atten_mask: Array | None = None,
    scale_value: float | None = None,
    head_num: int | None = None,
    input_layout: str = "BNSD",
    sparse_mode: int = 0,
) -> tuple[Array, Array, Array]:
    """The gradients of query, key and value."""
    call = _Call(query, key_in, value, None, atten_mask, scale_value, head_num, input_layout, sparse_mode)
    return _gradients(call, dy, softmax_max, softmax_sum, attention_in)


def flash_attention_score_grad_v2(
    query: Array,
    key_in: Array,
    value: Array,
    dy: Array,
    pse_shift: Array,
    softmax_max: Array,
    softmax_sum: Array,
    attention_in: Array,
    atten_mask: Array | None = None,
    scale_value: float | None = None,
    head_num: int | None = None,
    input_layout: str = "BNSD",
    sparse_mode: int = 0,
) -> tuple[Array, Array, Array]:
    """The same with what was added to the scaled products."""
    call = _Call(query, key_in, value, pse_shift, atten_mask, scale_value, head_num, input_layout, sparse_mode)
    return _gradients(call, dy, softmax_max, softmax_sum, attention_in)


def _forward(call: _Call) -> Array:
    """All heads at once: keys are repeated, and what is masked out is minus infinity."""
    queries, keys, values = call.of_query(call.query), call.of_key(call.key), call.of_key(call.value)
    group = queries.shape[1] // max(keys.shape[1], 1)
    keys, values = np.repeat(keys, group, 1), np.repeat(values, group, 1)
    scores = call.scale * np.einsum("bnsd,bntd->bnst", queries, keys)
    if call.bias is not None:
        scores += call.bias
    if call.mask is not None:
        scores[np.broadcast_to(call.mask, scores.shape)] = -np.inf
    if call.sparse_mode > 1:
        rows, columns = scores.shape[2:]
        scores[..., ~np.tri(rows, columns, columns - rows if call.sparse_mode == 3 else 0, bool)] = -np.inf
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores - np.logaddexp.reduce(scores, -1, keepdims=True, initial=-np.inf))
    return laid_out(np.einsum("bnst,bntd->bnsd", np.nan_to_num(shares), values), call.layout)


def attention(
    query: Array,
    key_in: Array,
    value: Array,
    dy: Array,
    softmax_max: Array,
    softmax_sum: Array,
    attention_in: Array,
    atten_mask: Array | None = None,
    scale_value: float | None = None,
    head_num: int | None = None,
    input_layout: str = "BNSD",
    sparse_mode: int = 0,
) -> Array:
    """The result, whatever the statistics are."""
    return _forward(_Call(query, key_in, value, None, atten_mask, scale_value, head_num, input_layout, sparse_mode))


def attention_v2(
    query: Array,
    key_in: Array,
    value: Array,
    dy: Array,
    pse_shift: Array,
    softmax_max: Array,
    softmax_sum: Array,
    attention_in: Array,
    atten_mask: Array | None = None,
    scale_value: float | None = None,
    head_num: int | None = None,
    input_layout: str = "BNSD",
    sparse_mode: int = 0,
) -> Array:
    """The same with what is added to the scaled products."""
    return _forward(
        _Call(query, key_in, value, pse_shift, atten_mask, scale_value, head_num, input_layout, sparse_mode)
    )


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "flash_attention_score": Definition(flash_attention_score),
    "flash_attention_score_grad": Definition(flash_attention_score_grad, attention),
    "flash_attention_score_grad_v2": Definition(flash_attention_score_grad_v2, attention_v2),
    "flash_attention_score_v2": Definition(flash_attention_score_v2),
}
