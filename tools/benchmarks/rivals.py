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


def _figures(size: str, concurrency: int, rates: dict[str, tuple[float, float]]) -> tuple[Figure, ...]:
    return tuple(Figure(server, size, concurrency, rate, ratio) for server, (rate, ratio) in rates.items())


FIGURES: Final = (
    *_figures(
        "16 KB",
        1,
        {
            "C++ gRPC echo": (6826, 2.1),
            "naive grpcio + PyTorch": (2164, 0.67),
            "PyTriton 0.7": (567, 0.19),
            "MLServer 1.7": (994, 0.35),
            "TorchServe 0.12": (205, 0.06),
            "Ray Serve 2.60": (271, 0.09),
        },
    ),
    *_figures(
        "16 KB",
        16,
        {
            "C++ gRPC echo": (37220, 8.8),
            "naive grpcio + PyTorch": (2577, 0.45),
            "PyTriton 0.7": (638, 0.10),
            "MLServer 1.7": (1106, 0.15),
            "TorchServe 0.12": (424, 0.10),
            "Ray Serve 2.60": (419, 0.09),
        },
    ),
    *_figures(
        "6.4 MB",
        16,
        {
            "C++ gRPC echo": (275, 1.2),
            "naive grpcio + PyTorch": (71, 0.32),
            "PyTriton 0.7": (78, 0.38),
            "MLServer 1.7": (5.4, 0.03),
            "TorchServe 0.12": (42, 0.20),
            "Ray Serve 2.60": (33, 0.15),
        },
    ),
    *_figures(
        "100 MB",
        4,
        {
            "C++ gRPC echo": (21.9, 2.9),
            "naive grpcio + PyTorch": (1.5, 0.26),
            "PyTriton 0.7": (6.1, 0.89),
            "MLServer 1.7": (0.3, 0.07),
            "TorchServe 0.12": (0.9, 0.12),
            "Ray Serve 2.60": (1.4, 0.18),
        },
    ),
)

PEAK_GB: Final = {
    "naive grpcio + PyTorch": 4.5,
    "PyTriton 0.7": 8.0,
    "MLServer 1.7": 3.6,
    "TorchServe 0.12": 10.7,
    "Ray Serve 2.60": 15.7,
}
"""Peak memory of client and server at 100 MB and four calls at once."""
