"""What the formulas start from: figures that were measured (docs/capacity.md), and those of a planner's choice."""

from dataclasses import dataclass
from typing import Final

from tools.benchmarks.sizes import SIZES


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of gradient: CPU time of a server on the host library for each, and its bytes in each direction."""

    name: str
    cpu_ms: float
    size_bytes: int


LOADS: Final = (
    Load("16 KB", 0.48, SIZES["16 KB"].tensor_bytes),
    Load("16 KB in batches", 0.06, SIZES["16 KB"].tensor_bytes),
    Load("1 MB", 1.7, SIZES["1 MB"].tensor_bytes),
    Load("6.4 MB", 9.3, SIZES["6.4 MB"].tensor_bytes),
)
"""The upper end of each range in docs/capacity.md."""
RATES: Final = (100, 1_000, 10_000, 100_000)

TARGET: Final = 0.6
"""Utilisation to plan for."""
HOST_CORES: Final = 16
HOST_GBIT_S: Final = 25
KERNEL_MS: Final = 2.0
"""The example of a card: it runs one kernel after the other, each in this time."""
SPARE: Final = 1

HOSTS: Final = 1000
SLOWNESS: Final = 10
"""How many times slower than its siblings the one slow host is."""
FAN_OUTS: Final = (1, 10, 100, 1000)

RETRY_SHARE: Final = 0.1
RETRY_BURST: Final = 100
PERIOD_S: Final = 60
"""The retry budget of a client; a test compares it with the client's."""
CLIENT_RATES: Final = (1, 10, 100, 1000)
