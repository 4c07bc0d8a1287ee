"""The gradients of composites in float64: the same arguments, without the program.

Each is written as its sum by numpy's einsum, and not by products of transposed matrices.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.composites.subscripts import Subscripts

Array = np.ndarray[Any, Any]
_AXES: Final = "abcdefgh"


def linear_backward(grad_output: Array, input: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Returns the gradients of input, weight and bias."""
    grad, x, w = _wide(grad_output, input, weight)
    rows = math.prod(x.shape[:-1])
    grads, features = grad.reshape(rows, *w.shape[:-1]), x.reshape(rows, x.shape[-1])
    out = "o" * (w.ndim - 1)
    of_input = np.einsum(f"r{out},{out}i->ri", grads, w).reshape(x.shape)
    return of_input, np.einsum(f"r{out},ri->{out}i", grads, features), np.einsum(f"r{out}->{out}", grads)


def matmul_backward(grad_output: Array, input: Array, other: Array) -> tuple[Array, Array]:
    """Returns the gradients of both operands."""
    grad, one, two = _wide(grad_output, input, other)
    own = "m" * (one.ndim > 1), "n" * (two.ndim > 1)
    batches = [_AXES[len(_AXES) - max(each.ndim - 2, 0) :] for each in (one, two)]
    batch = max(batches, key=len)
    labels = f"{batch}{own[0]}{own[1]}", f"{batches[0]}{own[0]}k", f"{batches[1]}k{own[1]}"
    return _of_operand(labels, (grad, one, two), 1), _of_operand(labels, (grad, one, two), 2)


def addmm_backward(
    grad_output: Array, shape: Sequence[int], mat1: Array, mat2: Array, beta: float = 1.0, alpha: float = 1.0
) -> tuple[Array, Array, Array]:
    """Returns the gradients of the addend and of both operands."""
    of_addend = beta * _summed(grad_output.astype(np.float64), tuple(shape))
    one, two = matmul_backward(grad_output, mat1, mat2)
    return of_addend, alpha * one, alpha * two


def einsum_backward(equation: str, grad_output: Array, *operands: Array) -> tuple[Array, ...]:
    """Returns the gradients of all operands."""
    subscripts = Subscripts.of(equation, [each.shape for each in operands])
    arrays = _wide(grad_output, *operands)
    return tuple(_of_operand((subscripts.output, *subscripts.inputs), arrays, index) for index in range(1, len(arrays)))


def scaled_dot_product_attention_backward(
    grad_output: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    logsumexp: Array | None = None,
    output: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Returns the gradients of query, key and value, without using the forward pass's results."""
    grad, queries, keys, values = _wide(grad_output, query, key, value)
    groups = (*keys.shape[:2], queries.shape[1] // max(keys.shape[1], 1))
    grad, queries = (each.reshape(*groups, *each.shape[2:]) for each in (grad, queries))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.einsum("bmgsd,bmtd->bmgst", queries, keys) * factor
    seen: Array = np.tri(*scores.shape[3:]) > 0 if is_causal else np.ones((1, 1), np.bool_)
    if attn_mask is not None:
        own = np.broadcast_to(attn_mask, (*query.shape[:3], key.shape[2])).reshape(scores.shape)
        seen, scores = (own, scores) if own.dtype == np.bool_ else (own != -np.inf, scores + own)
    scores = np.where(seen, scores, np.finfo(np.float64).min)
    powers = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True, initial=np.finfo(np.float64).min)), 0.0)
    shares = powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    of_shares = np.einsum("bmgse,bmte->bmgst", grad, values)
    of_scores = shares * (of_shares - (shares * of_shares).sum(-1, keepdims=True)) * factor
    of_query = np.einsum("bmgst,bmtd->bmgsd", of_scores, keys).reshape(query.shape)
    of_key = np.einsum("bmgst,bmgsd->bmtd", of_scores, queries)
    return of_query, of_key, np.einsum("bmgst,bmgse->bmte", shares, grad)


def _wide(*arrays: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(each).astype(np.float64) for each in arrays)


def _of_operand(labels: Sequence[Sequence[Any]], arrays: Sequence[Array], index: int) -> Array:
    """Returns the gradient of one operand of an einsum, whose output and gradient come first."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(each for some in labels for each in some))}
    sizes: dict[Any, int] = {}
    for some, array in zip(labels, arrays, strict=True):
        for label, size in zip(some, array.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    arguments: list[Any] = []
    for number, (some, array) in enumerate(zip(labels, arrays, strict=True)):
        if number != index:
            full = np.broadcast_to(array, [sizes[label] for label in some])
            arguments += [full, [numbers[label] for label in some]]
    wanted, shape = labels[index], arrays[index].shape
    # The gradient repeats along an axis that only this operand has.
    alone = [label for label in wanted if not any(label in some for n, some in enumerate(labels) if n != index)]
    found = np.einsum(*arguments, [numbers[label] for label in wanted if label not in alone])
    for axis, label in enumerate(wanted):
        if label in alone:
            found = np.repeat(np.expand_dims(found, axis), sizes[label], axis)
    return _summed(found, shape)


def _summed(array: Array, shape: tuple[int, ...]) -> Array:
    """Returns the sum over the axes along which this shape was broadcast."""
    added = array.ndim - len(shape)
    axes = tuple(axis for axis in range(array.ndim) if axis < added or shape[axis - added] != array.shape[axis])
    return array.sum(axes).reshape(shape) if axes else array


DEFINITIONS: Final[Mapping[str, Callable[..., tuple[Array, ...]]]] = {
    "addmm_backward": addmm_backward,
    "bmm_backward": matmul_backward,
    "einsum_backward": einsum_backward,
    "linear_backward": linear_backward,
    "matmul_backward": matmul_backward,
    "scaled_dot_product_attention_backward": scaled_dot_product_attention_backward,
}
"""Definitions by the names of the functions."""
