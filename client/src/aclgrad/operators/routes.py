"""Routes: how a device computes an operator in less precision than its dtype has, and how wrong that may be.

A cube unit multiplies operands that were rounded to FLOAT16 or HFLOAT32, and adds up in FLOAT32, whose own rounding is
2^13 times smaller. So an error follows from the roundings of one term, relative to the sum of |terms|. The operators'
aclnn functions in CANN's sources (ops-nn, pooling) say which products round, and where.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Precision:
    """A type that operands are rounded to.

    One rounding changes a number by at most its `unit`, which is 2^-(1 + bits of the mantissa), and a number near 0 by
    at most `least`. Larger numbers than `largest` become infinite.
    """

    name: str
    unit: float
    least: float
    largest: float


FLOAT16: Final = Precision("FLOAT16", unit=2.0**-11, least=2.0**-25, largest=65504.0)
HFLOAT32: Final = Precision("HFLOAT32", unit=2.0**-12, least=2.0**-138, largest=(2 - 2.0**-11) * 2.0**127)
"""CANN's documents give it the range of FLOAT32 and 11 bits of mantissa, one more than FLOAT16 has (`--allow_hf32`)."""


@dataclass(frozen=True, slots=True)
class Route:
    """Sums of up to `terms` products of a gradient and a weight; each term is rounded up to `roundings` times.

    `weight` is the smallest one, of which FLOAT16 may have fewer bits.
    """

    precision: Precision
    roundings: int
    terms: int
    weight: float

    @property
    def relative(self) -> float:
        """The largest error of an element, relative to the sum of |terms|."""
        unit = self.precision.unit
        of_weight = max(unit, self.precision.least / self.weight)
        return (1 + unit) ** (self.roundings - 1) * (1 + of_weight) - 1

    @property
    def absolute(self) -> float:
        """The largest further error of an element whose terms are near 0."""
        return self.roundings * self.terms * self.precision.least

    def is_exceeded_by(self, values: np.ndarray[Any, Any]) -> bool:
        """Whether finite values are too large for the precision."""
        return bool(np.any(np.isfinite(values) & (np.abs(values.astype(np.float64)) > self.precision.largest)))
