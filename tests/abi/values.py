"""Random elements of every data type, and the comparison of a result with its definition in float64."""

import ml_dtypes
import numpy as np

# Relative and absolute: half a step of each type, subnormals included, and some for the sums.
TOLERANCE = {
    np.float32: (2.0**-20, 1e-38),
    np.float16: (2.0**-10, 2.0**-24),
    ml_dtypes.bfloat16: (2.0**-7, 1e-38),
    np.float64: (2.0**-48, 1e-300),
    np.complex64: (2.0**-20, 1e-38),
    np.complex128: (2.0**-48, 1e-300),
}


def random(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(sum(shape) + seed)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    values = generator.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def assert_close(result: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> None:
    """scale: the definition with absolute values, by which rounding errors are measured."""
    relative, absolute = TOLERANCE[result.dtype.type]
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    error = abs(result.astype(wide) - expected)
    assert (error <= relative * scale + absolute).all(), (error - relative * scale).max()
