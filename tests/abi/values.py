"""Random elements of every data type, and the comparison of a result with its definition in float64."""

from collections.abc import Callable

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

# Views of a storage of rank 4.
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda a: a.transpose(0, 1, 3, 2),
    "batches and channels swapped": lambda a: a.transpose(1, 0, 2, 3),
    "every second column": lambda a: a[..., ::2],
    "inner part": lambda a: a[:, 1:, 2:, 1:-1],
    "contiguous after an offset": lambda a: a[1:],
    "reversed": lambda a: a[:, :, ::-1, ::-1],
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


def storage_of(view: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the storage of which the view has the given shape."""
    for extra in np.ndindex(3, 3, 3, 3):
        for axes in ((0, 1, 2, 3), (0, 1, 3, 2), (1, 0, 2, 3)):
            for factor in (1, 2):
                candidate = [shape[axis] + more for axis, more in zip(axes, extra, strict=True)]
                candidate[3] *= factor
                if view(np.empty(candidate, np.int8)).shape == shape:
                    return tuple(candidate)
    raise AssertionError("no storage found")


def assert_close(result: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> None:
    """scale: the definition with absolute values, by which rounding errors are measured."""
    relative, absolute = TOLERANCE[result.dtype.type]
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    error = abs(result.astype(wide) - expected)
    assert (error <= relative * scale + absolute).all(), (error - relative * scale).max()
