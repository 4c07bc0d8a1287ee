"""Compares a result with what is right, element by element."""

import math
import sys
from typing import Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.limits import errors_of
from aclgrad.judge.dumps.records import PICTURE_SIDE, Picture, Side
from aclgrad.judge.findings.rows import Element, Verdict

_SHOWN: Final = 5
_LIMIT: Final = 5
"""The digit of an error as large as its limit."""
_HIGHEST: Final = 9
_SCATTER: Final = 1e-4
"""How far elements may be from a common factor, squared and beside their squares."""


def side_of(found: Tensor, truth: Tensor, limit: Tensor, single: Tensor) -> Side:
    """Returns the finding about a result of any dtype: passed if each element is within its limit.

    What overflows in the dtype of the result, or in PyTorch's own run (`single`), may be infinite, with its own sign,
    and what is no number in that run may be none.
    """
    if found.shape != truth.shape:
        shapes = f"{tuple(found.shape)} instead of {tuple(truth.shape)}"
        return Side(Verdict.FAILED, f"its shape is {shapes}", None)
    if not found.numel():
        return Side(Verdict.PASSED)
    error = errors_of(found, truth)
    error = torch.where(_may_overflow(found, truth, single), 0.0, error)
    outside = ~(error <= limit)
    share = torch.where(error == 0, 0.0, error / limit).nan_to_num(nan=math.inf, posinf=math.inf)
    worst = int(share.flatten().argmax())
    figures = float(error.flatten()[worst]), min(float(limit.flatten()[worst]), sys.float_info.max)
    count = int(outside.sum())
    told = figures[0] if math.isfinite(figures[0]) else None
    if not count:
        return Side(Verdict.PASSED, "", told, figures[1])
    elements = _worst(found, truth, share, outside)
    first = elements[0]
    at = ", ".join(map(str, first.index))
    values = (each[first.index].item() for each in (found, truth))
    message = f"{next(values):.9g} at ({at}) where {next(values):.9g} is right"
    if (factor := factor_of(found, truth)) is not None:
        message += f"; all together are {factor:.5g} times what is right"
    return Side(Verdict.FAILED, message, told, figures[1], count, elements, _picture(share))


def exact_side(found: Tensor, truth: Tensor) -> Side:
    """Returns the finding about integers and truth values, which have to be equal."""
    if found.shape != truth.shape:
        return Side(Verdict.FAILED, f"its shape is {tuple(found.shape)} instead of {tuple(truth.shape)}", None)
    wrong = found != truth.to(found.dtype)
    count = int(wrong.sum())
    if not count:
        return Side(Verdict.PASSED)
    share = torch.where(wrong, (found.double() - truth.double()).abs().clamp(min=1.0), 0.0)
    elements = _worst(found, truth, share, wrong)
    at = ", ".join(map(str, elements[0].index))
    message = f"{elements[0].computed:.0f} at ({at}) where {elements[0].expected:.0f} is right"
    return Side(Verdict.FAILED, message, float(share.max()), 0.0, count, elements, _picture(share * 1e3))


def _largest(dtype: torch.dtype) -> float:
    """Returns what is infinite when rounded to the dtype."""
    return torch.finfo(dtype).max if dtype.is_floating_point or dtype.is_complex else math.inf


def _may_overflow(found: Tensor, truth: Tensor, single: Tensor) -> Tensor:
    """Returns which elements are rightly infinite, or no number, where the truth is finite."""
    overflows = ~single.isfinite() | (truth.abs() > _largest(found.dtype))
    if found.is_complex():
        return overflows & ~found.isfinite() & truth.isfinite()
    is_signed = found.isinf() & (found.sign() == truth.sign()) & truth.isfinite()
    return (overflows & is_signed) | (single.isnan() & ~found.isfinite())


def factor_of(found: Tensor, truth: Tensor) -> float | None:
    """Returns the factor other than 1 that all elements have in common, or None if they have none."""
    wide, right = found.to(truth.dtype).flatten(), truth.flatten()
    square = float((right.abs() ** 2).sum())
    if not math.isfinite(square) or not square or not bool(wide.isfinite().all()):
        return None
    factor = float(torch.vdot(right, wide).real) / square
    rest = float((wide - factor * right).abs().square().sum())
    return factor if rest < _SCATTER * factor**2 * square and abs(factor - 1) > _SCATTER else None


def _worst(found: Tensor, truth: Tensor, share: Tensor, outside: Tensor) -> tuple[Element, ...]:
    ranked = torch.where(outside, share, -1.0).flatten()
    order = ranked.topk(min(_SHOWN, int(outside.sum()))).indices.tolist()
    elements = []
    for each in order:
        index = tuple(int(at) for at in torch.unravel_index(torch.tensor(each), truth.shape)) if truth.dim() else ()
        computed, expected = found.flatten()[each], truth.flatten()[each]
        elements.append(Element(index, _number(computed), _number(expected)))
    return tuple(elements)


def _number(value: Tensor) -> float:
    return float(value.real if value.is_complex() else value)


def _picture(share: Tensor) -> Picture:
    """Returns the largest shares of the limit in the parts of a tensor, as rows and columns of digits."""
    plane = share.reshape(-1, share.shape[-1]) if share.dim() > 1 else share.reshape(1, -1)
    for axis in (0, 1):
        size = plane.shape[axis]
        if size > PICTURE_SIDE:
            parts = torch.tensor_split(plane, PICTURE_SIDE, axis)
            plane = torch.stack([part.amax(axis) for part in parts], axis)
    level = torch.where(plane > 0, _LIMIT + plane.clamp(1e-12, 1e12).log10(), 0.0)
    digits = torch.where(plane > 0, level.round().clamp(1, _HIGHEST), 0.0).int().tolist()
    return tuple("".join(map(str, row)) for row in digits)
