"""References and gradients of devices, each for one rule of acc_check; details.csv has msprobe's own rows of them.

`tests/frameworks` compares that file with the msprobe that is installed.
"""

from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

GOLDEN: Final = Path(__file__).parent / "details.csv"
NAN, INF = float("nan"), float("inf")
RAMP = np.arange(1, 4001) / 1000


def _few(count: int, factor: float) -> Array:
    """Returns factors of a ramp of which this many, evenly spread, are not 1."""
    factors = np.ones(RAMP.size)
    factors[:: RAMP.size // count][:count] = factor
    return factors


PAIRS: Final[dict[str, tuple[Any, Any, str]]] = {
    "equal": ([[1.0, -2.0], [0.5, 4.0]], [[1.0, -2.0], [0.5, 4.0]], "float32"),
    "one_percent_of_a_small_gradient": (RAMP / 100, RAMP / 100 * 1.01, "float32"),
    "one_percent": (RAMP, RAMP * 1.01, "float32"),
    "few_off": (RAMP, RAMP * _few(3, 1.01), "float32"),
    "many_slightly_off": (RAMP, RAMP * _few(400, 1.0005), "float32"),
    "opposite": ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], "float32"),
    "one_element": ([3.0], [-3.0], "float32"),
    "no_dimensions": (2.0, 2.5, "float32"),
    "shapes": ([[1.0, 2.0]], [1.0, 2.0], "float32"),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3)), "float32"),
    "both_zero": ([0.0, 0.0], [0.0, 0.0], "float32"),
    "device_zero": ([1.0, 0.0], [0.0, 0.0], "float32"),
    "reference_zero": ([0.0, 0.0], [0.0, 1.0], "float32"),
    "small_values": ([2**-21, 2**-22, 1.0, 2.0], [2**-21, 3 * 2**-22, 1.0, 2.0], "float32"),
    "nothing_but_noise": ([1e-17, -1e-17, 1e-18], [1e-9, 2e-9, -3e-9], "float32"),
    "nan": ([1.0, NAN, 3.0], [1.0, 2.0, 3.0], "float32"),
    "infinite": ([1.0, INF, 3.0], [1.0, INF, 3.0], "float32"),
    "half": (RAMP, RAMP * 1.0004, "float16"),
    "half_overflow": ([1.0, 70000.0], [1.0, INF], "float16"),
    "half_wrong": (RAMP * 100, RAMP * 102, "float16"),
    "half_few_off": (RAMP, RAMP * _few(20, 1.02), "float16"),
    "bfloat16": (RAMP, RAMP, "bfloat16"),
    "bfloat16_wrong": (RAMP, RAMP * 1.05, "bfloat16"),
    "bfloat16_few_off": (np.round(RAMP * 8) / 8, np.round(RAMP * 8) / 8 * _few(10, 1.5), "bfloat16"),
    "float64": (RAMP, RAMP * (1 + 1e-9), "float64"),
    "float64_zero": ([0.0, 0.0], [0.0, 1.0], "float64"),
    "integers": ([1, 2, 3], [1, 2, 4], "int64"),
    "booleans": ([True, False], [True, False], "bool"),
}
REFERENCES: Final = {"float32": np.float64, "float16": np.float32, "bfloat16": np.float32}


def arrays(name: str) -> tuple[Array, Array]:
    """Returns reference and gradient in the dtypes in which acc_check has them."""
    truth, device, dtype = PAIRS[name]
    own = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    with np.errstate(over="ignore"):
        return np.asarray(truth, REFERENCES.get(dtype, dtype)), np.asarray(device).astype(own)
