"""What others reach with the same operator: measured once, on a machine with two noisy AVX-512 cores, November 2026.

Each server ran adaptive average pooling backward on PyTorch's CPU kernels (2.13.0), beside a bare Python gRPC echo of
the same bytes, with tensors of 12.5 KB (16 KB in a request), 6.4 MB and 103 MB. The ratios compare with ours; the rates
are of another day. The echo came in two speeds at the smallest size, and nobody's allocator was touched.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Figure:
    """Calls per second of one server at one load."""

    server: str
    size: str
    concurrency: int
    calls_per_s: float
    ratio: float
    """To the echo of the same run."""


_LOADS: Final = (("16 KB", 1), ("16 KB", 16), ("6.4 MB", 16), ("100 MB", 4))
_RATES: Final = {
    "C++ gRPC echo": ((6826, 2.1), (37220, 8.8), (275, 1.2), (21.9, 2.9)),
    "naive grpcio + PyTorch": ((2164, 0.67), (2577, 0.45), (71, 0.32), (1.5, 0.26)),
    "PyTriton 0.7": ((567, 0.19), (638, 0.10), (78, 0.38), (6.1, 0.89)),
    "MLServer 1.7": ((994, 0.35), (1106, 0.15), (5.4, 0.03), (0.3, 0.07)),
    "TorchServe 0.12": ((205, 0.06), (424, 0.10), (42, 0.20), (0.9, 0.12)),
    "Ray Serve 2.60": ((271, 0.09), (419, 0.09), (33, 0.15), (1.4, 0.18)),
}
"""Calls/s and the ratio at each load."""
FIGURES: Final = tuple(
    Figure(server, *load, *rates[number]) for number, load in enumerate(_LOADS) for server, rates in _RATES.items()
)
