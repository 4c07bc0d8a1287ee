"""How long questions took: the one summary of all scenarios."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns the smallest value that so many percent of the values do not exceed; not a number without values."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else math.nan


@dataclass(frozen=True, slots=True)
class Latencies:
    """The milliseconds of one kind of question, in order; one that failed counts until its failure."""

    ordered_ms: tuple[float, ...]
    errors: tuple[str, ...] = ()

    @classmethod
    def of(cls, seconds: Iterable[float], errors: Iterable[str] = ()) -> Self:
        return cls(tuple(sorted(1e3 * each for each in seconds)), tuple(each for each in errors if each))

    def ms(self, percent: float) -> float:
        return percentile(self.ordered_ms, percent)
