"""Routes: how a device computes an operator in lower precision than its dtype, and the error of that.

A cube unit multiplies operands rounded to FLOAT16 or HFLOAT32, and sums in FLOAT32. So the error consists of the
roundings of one term and of long sums, relative to the sum of |terms|. The aclnn functions in CANN's sources (ops-nn,
pooling and matmul) show which products round, and where.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Precision:
    """A type to which operands are rounded.

    One rounding changes a number by at most its `unit`, which is 2^-(1 + bits of the mantissa), and a number near 0 by
    at most `least`. Larger numbers than `largest` become infinite.
    """

    name: str
    unit: float
    least: float
    largest: float


FLOAT16: Final = Precision("FLOAT16", unit=2.0**-11, least=2.0**-25, largest=65504.0)
FLOAT32: Final = Precision("FLOAT32", unit=2.0**-24, least=2.0**-150, largest=(2 - 2.0**-23) * 2.0**127)
HFLOAT32: Final = Precision("HFLOAT32", unit=2.0**-12, least=2.0**-138, largest=(2 - 2.0**-11) * 2.0**127)
"""CANN's documents give it the range of FLOAT32 and 11 bits of mantissa, one more than FLOAT16 has (`--allow_hf32`)."""


@dataclass(frozen=True, slots=True)
class Route:
    """Sums of up to `terms` products of a gradient and a weight; each term is rounded up to `roundings` times.

    `weight` is the smallest weight, for which FLOAT16 may have fewer bits. `inputs` names the inputs whose products are
    the terms. `of_sums` is the error of summation, and `of_results` the further error of results near 0.
    """

    precision: Precision
    roundings: int
    terms: int
    weight: float
    inputs: tuple[str, ...] = ()
    of_sums: float = 0.0
    of_results: float = 0.0

    @property
    def relative(self) -> float:
        """The largest error of an element, relative to the sum of |terms|."""
        unit = self.precision.unit
        of_weight = max(unit, self.precision.least / self.weight)
        return (1 + unit) ** (self.roundings - 1) * (1 + of_weight) - 1 + self.of_sums

    @property
    def absolute(self) -> float:
        """The largest further error of an element whose terms are near 0."""
        return self.roundings * self.terms * self.precision.least + self.of_results

    def is_exceeded_by(self, values: np.ndarray[Any, Any]) -> bool:
        """Whether finite values are too large for the precision."""
        return bool(np.any(np.isfinite(values) & (np.abs(values.astype(np.float64)) > self.precision.largest)))
