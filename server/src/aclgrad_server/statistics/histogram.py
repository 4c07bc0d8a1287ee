"""Durations by power of two: the bucket of a duration is the number of bits of its microseconds."""

from collections.abc import Sequence
from typing import Final

_SIZE: Final = 64  # more than any duration has bits


class Histogram:
    """Durations that one thread adds, and that any thread reads."""

    __slots__ = ("counts", "total_s")

    def __init__(self, counts: Sequence[int] = (), total_s: float = 0.0) -> None:
        self.counts = list(counts) or [0] * _SIZE
        """How many durations are in each bucket: bucket n ends at 2**n microseconds."""
        self.total_s = total_s

    def add(self, seconds: float) -> None:
        self.counts[int(seconds * 1e6).bit_length()] += 1
        self.total_s += seconds

    def copy(self) -> "Histogram":
        return Histogram(self.counts, self.total_s)

    def since(self, earlier: "Histogram") -> "Histogram":
        """Returns what was added after the earlier copy was made."""
        counts = [now - before for now, before in zip(self.counts, earlier.counts, strict=True)]
        return Histogram(counts, self.total_s - earlier.total_s)

    def plus(self, other: "Histogram") -> "Histogram":
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Histogram(counts, self.total_s + other.total_s)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile_s(self, share: float) -> float | None:
        """Returns the duration that this share does not exceed, linear within a bucket; None without durations."""
        rank = share * self.count
        for number, count in enumerate(self.counts):
            if count and rank <= count:
                end_s = bound_s(number)
                return end_s / 2 * (1 + rank / count) if number else end_s * rank / count
            rank -= count
        return None


def bound_s(number: int) -> float:
    """Returns the end of a bucket."""
    return float(1 << number) / 1e6
