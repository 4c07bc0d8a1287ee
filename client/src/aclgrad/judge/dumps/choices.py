"""Choices of a device: which elements a dropout keeps, and which of equal elements is the maximum."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor

DROPOUTS: Final = frozenset(("dropout", "dropout_", "native_dropout", "_npu_dropout"))
_WITH_MASKS: Final = frozenset(("native_dropout", "_npu_dropout"))
"""Dropouts that also return their mask."""
_PARTS: Final = 8
"""The dropped share is checked in each of these parts, because a zeroed tail drops everything in one."""
_DEVIATIONS: Final = 6.0
"""The allowed distance of the dropped share from its probability, in standard deviations."""
_POOLS: Final = tuple(
    f"{rule}max_pool{axes}d{more}" for rule in ("", "adaptive_") for axes in (1, 2, 3) for more in ("", "_with_indices")
)
_TIED: Final = frozenset(
    (
        *_POOLS,
        *("max", "min", "argmax", "argmin", "sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"),
        *("cummax", "cummin"),
    )
)
_ORDERED: Final = frozenset(("sort", "argsort", "topk"))
"""Functions that return the index of each element once."""
_OF_ALL: Final = frozenset(("argmax", "argmin"))
"""Functions that count in all elements unless they are given an axis."""


class NotJudgedError(Exception):
    """A call cannot be judged; the text says why."""


def as_recorded(
    name: str,
    probability: float,
    source: Tensor,
    output: Tensor,
    gradient: Tensor | None = None,
    mask: Tensor | None = None,
) -> Callable[..., Any]:
    """Returns the dropout that keeps the elements of a recorded call on the `source`.

    Where the source is 0, a recorded mask or gradient of the input shows them.
    """
    kept = kept_of(source, output, mask)
    if mask is None and gradient is not None and gradient.shape == kept.shape:
        kept |= (source == 0) & (gradient != 0)

    # Now, because the output may later be changed in place.
    scale = _scale(probability, source, output)

    def dropout(input: Tensor, *_: Any, **__: Any) -> Any:
        result = input * (kept.to(input.device, input.dtype) * scale)
        return (result, kept if mask is None else mask) if name in _WITH_MASKS else result

    return dropout


def kept_of(source: Tensor, output: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the elements that a dropout of the source has kept; without a mask, unknown where the source is 0."""
    return output != 0 if mask is None else unpacked(mask, source)


def unpacked(mask: Tensor, like: Tensor) -> Tensor:
    """Returns the elements that a mask keeps; it has truth values, or cards' bit for each element."""
    if mask.dtype == torch.bool:
        return mask.reshape(like.shape)
    bits = (mask.to(torch.uint8)[:, None] >> torch.arange(8)) & 1
    return bits.flatten()[: like.numel()].reshape(like.shape) != 0


def _scale(probability: float, source: Tensor, output: Tensor) -> float:
    """Returns 1 / (1 - probability); cards round the divisor to the dtype.

    PyTorch may round the quotient in 16 bits, which is an error of its own.
    """
    exact = 1 / (1 - probability) if probability < 1 else 0.0
    if output.itemsize >= 4 or not exact:
        return exact

    def rounded(value: float) -> float:
        return float(torch.tensor(value, dtype=output.dtype))

    def differing(scale: float) -> int:
        return int(((source.float() * scale).to(output.dtype) != output)[output != 0].sum())

    of_cards = 1 / rounded(1 - probability)
    return of_cards if min((exact, rounded(exact), of_cards), key=differing) == of_cards else exact


def probability_of(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, train: bool | None = True
) -> float:
    """Returns the probability of a dropout from its arguments; `native_dropout` has another name for its mode."""
    return 0.0 if training is False or train is False else p


def wrong_share(input: Tensor, output: Tensor, probability: float) -> str:
    """Returns the problem of the dropped share; empty if there is none."""
    judged = input.flatten() != 0
    dropped = (output.flatten() == 0)[judged]
    parts = [dropped, *dropped.tensor_split(_PARTS)] if dropped.numel() else []
    for part in parts:
        count = part.numel()
        share = float(part.double().mean()) if count else probability
        deviation = math.sqrt(probability * (1 - probability) / max(count, 1))
        if abs(share - probability) > _DEVIATIONS * deviation + 1 / max(count, 1):
            where = "" if part is dropped else f" in a part of {count}"
            return f"it drops {share:.1%} of the elements{where} instead of {probability:.1%}"
    return ""


def are_ties(name: str, source: Tensor, found: Tensor, truth: Tensor) -> bool:
    """Returns whether the source has equal elements at the indices `found` and `truth`."""
    if name not in _TIED or found.dtype != torch.int64 or found.shape != truth.shape:
        return False
    for flat, axis in _views(name, source, truth):
        if not all(_are_possible(name, indices, flat.shape[axis], axis) for indices in (found, truth)):
            continue
        pair = [_elements(flat, indices, axis) for indices in (found, truth)]
        if pair[0] is not None and pair[1] is not None and torch.equal(*pair):
            return True
    return False


def sums_of_ties(name: str, source: Tensor, gradient: Tensor) -> Tensor | None:
    """Returns the sums of a gradient over equal elements of the source: in a plane for pools, or in all of it.

    The device chooses which of equal elements is the maximum and gets the gradient. None for other functions.
    """
    if name not in _TIED or source.shape != gradient.shape or not source.numel():
        return None
    values = source.double().unique(return_inverse=True)[1]
    planes = source.shape[: -_axes(name)].numel() if name in _POOLS else 1
    numbers = torch.arange(planes).repeat_interleave(source.numel() // planes).reshape(source.shape)
    keys = (numbers * (int(values.max()) + 1) + values).flatten()
    groups = keys.unique(return_inverse=True)[1]
    return torch.zeros(int(groups.max()) + 1, dtype=torch.float64).index_add_(0, groups, gradient.double().flatten())


def _axes(pool: str) -> int:
    """Returns the number of a pool's axes."""
    return int(pool[pool.index("d", pool.index("pool")) - 1])


def _are_possible(name: str, indices: Tensor, size: int, axis: int) -> bool:
    """Returns whether the indices are within the axis and, if each element has one, are distinct."""
    if not indices.numel():
        return True
    if indices.min() < 0 or indices.max() >= size:
        return False
    if name not in _ORDERED or indices.numel() == 1:
        return True
    return bool((indices.sort(axis).values.diff(dim=axis) > 0).all())


def _views(name: str, source: Tensor, truth: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Yields the ways in which indices may count the source's elements: along an axis, in planes, or in all."""
    if name in _POOLS:
        axes = _axes(name)
        yield source.flatten(-axes), source.dim() - axes
        return
    if source.dim() < 2 or (name in _OF_ALL and truth.numel() == 1):
        yield source.flatten(), 0
        if source.dim() < 2:
            return
    for axis in range(source.dim()):
        yield source, axis


def _elements(source: Tensor, indices: Tensor, axis: int) -> Tensor | None:
    """Returns the elements of the source at the indices; None if these do not index the axis."""
    try:
        if source.dim() == 1:
            return source[indices]
        if indices.dim() < source.dim():
            return source.gather(axis, indices.unsqueeze(axis))
        if indices.dim() > source.dim():
            return source.gather(axis, indices.flatten(axis))
        return source.gather(axis, indices)
    except (IndexError, RuntimeError):
        return None
