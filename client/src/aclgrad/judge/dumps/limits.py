"""How far a recorded result may be from what is right, for any function of PyTorch.

The limit of an element is ten times the largest error that PyTorch's own float32 kernels make in the tensor (msprobe's
limit for the largest relative error), and what sums and roundings in another order make: 2^-24 sqrt(K) times the sum
of K |terms|, or four units in the last place of the larger of result and term; and one rounding of a result of 16 bits.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance

_OF_PYTORCH: Final = 10.0
_UNITS: Final = 4.0
_ROUNDINGS: Final = {torch.bfloat16: (2.0**-8, 2.0**-134), torch.float16: (2.0**-11, 2.0**-25)}
"""One rounding of a result, and of one that is nearly 0."""
_DOUBLE: Final = (torch.float64, torch.complex128)
_NORMAL: Final = 1e-30
"""Smaller numbers have fewer bits in float32."""
_FLUSHED: Final = torch.finfo(torch.float32).tiny
"""Cards take numbers below for 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """What the limits of one tensor follow from."""

    truth: Tensor
    single: Tensor
    """The result of PyTorch's run in float32, or in float64 of a call in float64."""
    terms: Tensor | None
    """The sums of |terms|, if they are known."""
    count: float
    """The number of terms of each sum."""
    dtype: torch.dtype
    """The dtype that the result is rounded to."""
    error: float | None = None
    """The largest error of `single`, if it is not that beside `truth`."""
    is_pointwise: bool = False
    """Whether an element follows from one element of each argument alone, so that its error has its own size."""


def limit_of(basis: Basis) -> Tensor:
    """Returns the limit of each element in float64, which is finite."""
    # What is infinite has to be so, and has no limit.
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
    """Returns the largest error of PyTorch's run; of a pointwise function, for each element not more than its share."""
    largest = largest_error(basis.single, basis.truth) if basis.error is None else basis.error
    if not basis.is_pointwise or basis.error is not None:
        return largest
    shares = torch.where(magnitude > _NORMAL, _finite(errors_of(basis.single, basis.truth) / magnitude), 0.0)
    return torch.clamp(float(shares.max()) * magnitude, max=largest) if shares.numel() else largest


def errors_of(found: Tensor, truth: Tensor) -> Tensor:
    """Returns |found - truth| in float64: 0 for equal infinities and for NaN where NaN is right."""
    wide = found.to(truth.dtype)
    error = (wide - truth).abs()
    return torch.where((wide == truth) | (wide.isnan() & truth.isnan()), 0.0, error)


def largest_error(found: Tensor, truth: Tensor, limit: Tensor | float = 0.0) -> float:
    """Returns the largest error beyond a limit, among the elements that are finite on both sides; 0 at least."""
    beyond = _finite(errors_of(found, truth) - limit).clamp(min=0.0)
    return float(beyond.max()) if beyond.numel() else 0.0


def limit_of_cards(truth: Tensor, tolerance: Tolerance) -> Tensor:
    """Returns the limit by what the kernels of cards are known to do: the tolerance of an operator here."""
    magnitude = truth.abs()
    largest = float(_finite(magnitude).max()) if magnitude.numel() else 0.0
    return tolerance.relative * magnitude + tolerance.absolute * largest


def tolerance_of(operators: tuple[str, ...], dtype: torch.dtype) -> Tolerance | None:
    """Returns the largest tolerance that these operators have for the dtype, or None if they have no such dtype."""
    name = str(dtype).removeprefix("torch.")
    tolerances = [OPERATORS[each].tolerances for each in operators]
    return max((each[name] for each in tolerances if name in each), key=lambda each: each.relative, default=None)


def _finite(values: Tensor) -> Tensor:
    return torch.where(values.isfinite(), values, 0.0)
