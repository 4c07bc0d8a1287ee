"""How much a call computes and moves, and how fast a device does that."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point operations, and bytes that are read and written: estimates within a factor of a few."""

    operations: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class Pace:
    """What a device does in a second, and the seconds that each call takes besides."""

    operations: float
    nbytes: float
    call_s: float

    def seconds(self, work: Work) -> float:
        """Returns how long the work takes: bytes bound what operations do not."""
        return self.call_s + max(work.operations / self.operations, work.nbytes / self.nbytes)
