"""The gradients of attention: the forward pass as a step, unless the caller has its results, then the gradients.

Conventions follow PyTorch's `scaled_dot_product_attention`: a mask is true where a key is seen, and broadcasts.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from aclgrad._client.calls.handles import Handle
from aclgrad.composites.operands import (
    Array,
    Operand,
    OperandLike,
    Program,
    Shape,
    broadcast,
    check_shape,
    narrow,
    operand,
)
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.rules import broadcasts

_RANK: Final = 4
LEAST_BIAS: Final = -3e38
"""Lower elements of a bias are raised to this: devices take rows of float32's lowest number as masked."""
_CAUSAL: Final = 2
"""The sparse mode that counts positions from the first query and key, like PyTorch."""


class AttentionGradients(NamedTuple):
    """Gradients of attention, each shaped as its operand."""

    grad_query: Handle
    grad_key: Handle
    grad_value: Handle


class Masks(NamedTuple):
    """The operators' inputs: a mask that is true where a key is not seen, and a bias of the scores."""

    mask: Operand | None
    bias: Operand | None


def scaled_dot_product_attention_backward(
    program: Program,
    grad_output: OperandLike,
    query: OperandLike,
    key: OperandLike,
    value: OperandLike,
    attn_mask: OperandLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    logsumexp: OperandLike | None = None,
    output: OperandLike | None = None,
) -> AttentionGradients:
    """Adds the steps of the gradients of `softmax(query @ key^T * scale + attn_mask) @ value`, in float32 or 16 bits.

    `query` has the shape (B, N, S, D), `key` and `value` (B, M, T, D), where M divides N; a mask broadcasts to (B, N,
    S, T), is true where a key is seen or added to the scores, and gets no gradient. `logsumexp` (B, N, S) and `output`
    are results of the forward pass; without them it becomes a step of the program. Raises InvalidFieldError for shapes
    that do not fit, and for numbers of the mask that the dtype of `query` does not hold.
    """
    operands = [_heads(name, each) for name, each in (("query", query), ("key", key), ("value", value))]
    whole = (*operands[0].shape[:3], operands[1].shape[2])
    grad = _heads("grad_output", grad_output)
    check_shape("grad_output", grad.shape, (*whole[:3], operands[2].shape[3]))
    if (logsumexp is None) != (output is None):
        missing = "logsumexp" if logsumexp is None else "output"
        raise InvalidFieldError.at(missing, "is missing", "give both logsumexp and output, or neither")
    masks = (
        Masks(None, None)
        if attn_mask is None
        else masks_of(program, operand("attn_mask", attn_mask), whole, operands[0].dtype)
    )
    if is_causal and attn_mask is not None:
        raise InvalidFieldError.at("attn_mask", "is given, and is_causal is true", "give one of both")
    mode = _CAUSAL if is_causal else 0
    statistics: tuple[Operand, ...]
    if logsumexp is None or output is None:
        inputs = dict(zip(("query", "key", "value"), operands, strict=True))
        statistics = _step(program, "flash_attention_score", inputs, "real_shift", masks, scale, mode)
    else:
        statistics = _saved(logsumexp, whole[:3]), _ones(whole[:3]), _heads("output", output)
        check_shape("output", statistics[2].shape, grad.shape)
    inputs = {"query": operands[0], "key_in": operands[1], "value": operands[2], "dy": grad}
    inputs |= dict(zip(("softmax_max", "softmax_sum", "attention_in"), statistics, strict=True))
    return AttentionGradients(*_step(program, "flash_attention_score_grad", inputs, "pse_shift", masks, scale, mode))


def _step(
    program: Program,
    operator: str,
    inputs: dict[str, Operand],
    bias: str,
    masks: Masks,
    scale: float | None,
    mode: int,
) -> tuple[Handle, ...]:
    """Adds the operator, or the one for a bias, whose input has this name."""
    if masks.mask is not None:
        inputs["atten_mask"] = masks.mask
    if masks.bias is not None:
        inputs[bias], operator = masks.bias, f"{operator}_v2"
    found: Any = program.execute(operator, inputs, {"scale_value": scale, "sparse_mode": mode})
    return tuple(found)


def _heads(name: str, value: OperandLike) -> Operand:
    found = operand(name, value)
    if found.ndim != _RANK:
        raise InvalidFieldError.at(name, f"has {found.ndim} axes", f"give {_RANK}: sequences, heads, positions, a head")
    return found


def _saved(value: OperandLike, shape: Shape) -> Operand:
    """Returns logarithms, with 0 for rows without a key, which other frameworks give minus infinity."""
    found = operand("logsumexp", value)
    check_shape("logsumexp", found.shape, shape)
    if isinstance(found, Handle):
        return found
    return np.where(found == -np.inf, 0.0, found).astype(np.float32)


def _ones(shape: Shape) -> Array:
    """Returns the rows' sums of exponentials relative to their logsumexp: one number for all rows."""
    return np.broadcast_to(np.float32(1.0), shape)


def masks_of(program: Program, mask: Operand, whole: Shape, dtype: np.dtype[Any]) -> Masks:
    """Returns the operators' inputs for a PyTorch mask that broadcasts to (B, N, S, T)."""
    if mask.ndim > _RANK or not broadcasts(mask.shape, whole):
        raise InvalidFieldError.at("attn_mask", f"is {mask.shape}", f"give a shape that broadcasts to {whole}")
    if mask.dtype == np.bool_:
        if isinstance(mask, Handle):
            # Operators take no view of a step's output as truth values.
            return Masks(program.eq_tensor(mask, np.broadcast_to(np.False_, _of_handle(mask.shape, whole))), None)
        return Masks(spread_mask(~mask, whole), None)
    if mask.dtype.kind in "iuc":
        remedy = "give bool, true where a key is seen, or floating-point numbers, which are added to the scores"
        raise InvalidFieldError.at("attn_mask", f"is {mask.dtype}", remedy)
    if isinstance(mask, Handle):
        return _masks_of_handle(program, mask, whole)
    unseen = mask == -np.inf
    if not unseen.any():
        return Masks(None, spread_bias(_raised(mask, dtype), whole))
    # Rows that are all minus infinity have no largest score; a mask gives them the result 0.
    bias = _raised(np.where(unseen, np.zeros((), mask.dtype), mask), dtype)
    return Masks(spread_mask(unseen, whole), spread_bias(bias, whole) if bias.any() else None)


def _raised(bias: Array, dtype: np.dtype[Any]) -> Array:
    """Returns the bias in the query's dtype; raises InvalidFieldError if that would round it."""
    is_low = bias < LEAST_BIAS
    found = np.where(is_low, np.asarray(LEAST_BIAS, bias.dtype), bias) if is_low.any() else bias
    if found.dtype == dtype:
        return found
    with np.errstate(over="ignore"):
        cast = found.astype(dtype)
    if ((cast != found) & ~(is_low & np.isfinite(cast)) & ~np.isnan(bias)).any():
        problem = f"is {bias.dtype}, and {dtype}, the dtype of query, does not hold its numbers"
        raise InvalidFieldError.at("attn_mask", problem, f"cast it to {dtype}, in which cards add it")
    return cast


def _masks_of_handle(program: Program, bias: Handle, whole: Shape) -> Masks:
    """Adds the steps that find minus infinity, and that raise lower numbers if the dtype has any."""
    infinite = np.broadcast_to(np.asarray(-np.inf, bias.dtype), _of_handle(bias.shape, whole))
    mask = program.eq_tensor(bias, infinite)
    if bias.dtype != np.float16:
        bias = program.clamp(narrow(bias), clip_value_min=LEAST_BIAS).broadcast_to(*bias.shape)
    return Masks(mask, spread_bias(bias, whole))


def _of_handle(mask: Shape, whole: Shape) -> Shape:
    """Returns the smallest shape of four axes that devices take for the mask."""
    sequences, heads = (1, 1, *mask)[-_RANK:][:2] if len(mask) > 1 else (1, 1)
    return whole if heads > 1 else (whole[0] if sequences > 1 else 1, 1, *whole[2:])


def spread_mask(mask: Operand, whole: Shape) -> Operand:
    """Returns a view of the smallest shape that devices take for the mask."""
    sequences, heads = (1, 1, *mask.shape)[-_RANK:][:2] if mask.ndim > 1 else (1, 1)
    rows = whole[2:]
    if sequences == heads == 1:
        return broadcast(mask[(0,) * max(mask.ndim - 2, 0)], rows)
    return broadcast(mask, whole if heads > 1 else (whole[0], 1, *rows))


def spread_bias(bias: Operand, whole: Shape) -> Operand:
    """Returns a view of the smallest shape that devices take for the bias."""
    shape = (*(1 for _ in range(_RANK - bias.ndim)), *bias.shape)
    shapes = [whole]
    if shape[0] == 1:
        shapes.append((1, *whole[1:]))
    if shape[2] == 1:
        shapes.append((*whole[:2], 1, whole[3]))
    return broadcast(bias, min(shapes, key=math.prod))
