"""The limits of a recorded result's error, for any function of PyTorch, and the error.

The limit of an element is the sum of: ten times the largest error of PyTorch's own float32 kernels in the tensor
(msprobe's limit for the largest relative error); the effect of another order of sums and roundings, 2^-24 sqrt(K) times
the sum of K |terms|, or four units in the last place of the larger of result and term; and one rounding of a result in
16 bits.
"""

import math
import sys
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.records import PICTURE_SIDE, Picture, Side
from aclgrad.judge.findings.rows import Element, Verdict
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.spec import Tolerance
from aclgrad.operators.tolerance import grown
from aclgrad.products import Product

_OF_PYTORCH: Final = 10.0
_UNITS: Final = 4.0
_ROUNDINGS: Final = {torch.bfloat16: (2.0**-8, 2.0**-134), torch.float16: (2.0**-11, 2.0**-25)}
"""One rounding of a result, and of a result near 0."""
PRODUCT: Final = Product.ATLAS_A2
"""The product whose kernels give a limit, because a dump does not name its own."""
_DOUBLE: Final = (torch.float64, torch.complex128)
_NORMAL: Final = 1e-30
"""Smaller numbers have fewer bits in float32."""
_FLUSHED: Final = torch.finfo(torch.float32).tiny
"""Cards flush smaller numbers to 0."""
_SHOWN: Final = 5
_LIMIT: Final = 5
"""The digit of an error that equals its limit."""
_HIGHEST: Final = 9
_SCATTER: Final = 1e-4
"""Allowed distance of elements from a common factor, as the ratio of squares."""


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """The basis of one tensor's limits."""

    truth: Tensor
    single: Tensor
    """The result of PyTorch's run in float32, or in float64 of a call in float64."""
    terms: Tensor | None
    """The sums of |terms|, if they are known."""
    count: float
    """The number of terms of each sum."""
    dtype: torch.dtype
    """The dtype to which the result is rounded."""
    error: float | None = None
    """The largest error of `single`, if it is not its distance from `truth`."""
    is_pointwise: bool = False
    """Whether an element depends on only one element of each argument, so that its error is in proportion to it."""


def limit_of(basis: Basis) -> Tensor:
    """Returns the limit of each element in float64, which is finite."""
    # Infinite elements have to be equal, and have no limit.
    magnitude = _finite(basis.truth.abs())
    terms = (
        magnitude if basis.terms is None else torch.maximum(_finite(basis.terms.abs()).to(magnitude.dtype), magnitude)
    )
    unit = 2.0**-53 if basis.dtype in _DOUBLE else 2.0**-24
    of_sums = unit * max(2 * _UNITS, math.sqrt(basis.count)) * terms
    limit = of_sums + _OF_PYTORCH * _error_of(basis, magnitude) + _FLUSHED
    if basis.dtype in _ROUNDINGS:
        relative, least = _ROUNDINGS[basis.dtype]
        limit += relative * magnitude + least
    return limit


def _error_of(basis: Basis, magnitude: Tensor) -> Tensor | float:
    """Returns the largest error of PyTorch's run; for a pointwise function, in proportion to each element."""
    largest = largest_error(basis.single, basis.truth) if basis.error is None else basis.error
    if not basis.is_pointwise or basis.error is not None:
        return largest
    shares = torch.where(magnitude > _NORMAL, _finite(errors_of(basis.single, basis.truth) / magnitude), 0.0)
    return torch.clamp(float(shares.max()) * magnitude, max=largest) if shares.numel() else largest


def errors_of(found: Tensor, truth: Tensor) -> Tensor:
    """Returns |found - truth| in float64, 0 for equal infinities and for right NaN."""
    wide = found.to(truth.dtype)
    error = (wide - truth).abs()
    return torch.where((wide == truth) | (wide.isnan() & truth.isnan()), 0.0, error)


def largest_error(found: Tensor, truth: Tensor, limit: Tensor | float = 0.0) -> float:
    """Returns the largest excess over a limit among elements that are finite on both sides; at least 0."""
    beyond = _finite(errors_of(found, truth) - limit).clamp(min=0.0)
    return float(beyond.max()) if beyond.numel() else 0.0


def limit_of_cards(truth: Tensor, tolerance: Tolerance) -> Tensor:
    """Returns the limit by our operator's tolerance, which is known to fit cards' kernels."""
    magnitude = truth.abs()
    largest = float(_finite(magnitude).max()) if magnitude.numel() else 0.0
    return tolerance.relative * magnitude + tolerance.of_largest * largest


def tolerance_of(operators: tuple[str, ...], dtype: torch.dtype, terms: float) -> Tolerance | None:
    """Returns the largest tolerance of these operators for the dtype, or None if they do not take it.

    It is the tolerance of the operator's first sample call with the dtype, for sums of this many terms.
    """
    name = str(dtype).removeprefix("torch.")
    calls = (
        next((each for each in typed_cases(PRODUCT, operator) if each.dtype == name), None) for operator in operators
    )
    found = (grown(each.tolerance(PRODUCT), name, terms, 1.0) for each in calls if each is not None)
    return max(found, key=lambda each: each.relative, default=None)


def _finite(values: Tensor) -> Tensor:
    return torch.where(values.isfinite(), values, 0.0)


def side_of(found: Tensor, truth: Tensor, limit: Tensor, single: Tensor) -> Side:
    """Returns the finding about a result of any dtype: passed if each element is within its limit.

    Elements that overflow in the result's dtype, or in PyTorch's own run (`single`), may be infinite with the right
    sign, and elements that are NaN in that run may be NaN.
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
    """Returns the finding about integers and truth values, which must be equal."""
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
    """Returns which elements are infinite when rounded to the dtype."""
    return torch.finfo(dtype).max if dtype.is_floating_point or dtype.is_complex else math.inf


def _may_overflow(found: Tensor, truth: Tensor, single: Tensor) -> Tensor:
    """Returns which elements may be infinite or NaN although the truth is finite."""
    overflows = ~single.isfinite() | (truth.abs() > _largest(found.dtype))
    if found.is_complex():
        return overflows & ~found.isfinite() & truth.isfinite()
    is_signed = found.isinf() & (found.sign() == truth.sign()) & truth.isfinite()
    return (overflows & is_signed) | (single.isnan() & ~found.isfinite())


def factor_of(found: Tensor, truth: Tensor) -> float | None:
    """Returns the common factor of all elements if it is not 1, or None."""
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
