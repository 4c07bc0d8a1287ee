"""How much of a training step a server computed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

MOST_ERROR: Final = 4.0
"""Times the error that PyTorch's own gradients have."""


@dataclass(slots=True)
class Shares:
    """How much of a step the server computed, in one way."""

    calls: int
    remote_calls: int
    operations: int
    remote_operations: int
    size_bytes: int
    remote_size_bytes: int
    error: float
    """That of all gradients, against float64, in those of PyTorch's own."""
    local: Counter[str] = field(default_factory=Counter)
    """What PyTorch computed that is not plain arithmetic, by the function's name."""
    programs: int = 0

    @property
    def call_share(self) -> float:
        return _share(self.remote_calls, self.calls)

    @property
    def operation_share(self) -> float:
        return _share(self.remote_operations, self.operations)

    @property
    def byte_share(self) -> float:
        return _share(self.remote_size_bytes, self.size_bytes)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0
