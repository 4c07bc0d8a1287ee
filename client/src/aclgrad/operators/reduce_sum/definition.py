"""The sum over axes."""

from typing import Any

import numpy as np

from aclgrad.operators.definitions import Array


def value(input: Array, dims: tuple[int, ...] = (), keep_dims: bool = False, dtype: Any = None) -> Array:
    """Adds up along the axes, or along all of them; what is not there adds up to 0."""
    wide = input.astype(np.float64)
    return np.asarray(np.sum(wide, tuple(dims) or None, keepdims=keep_dims) if wide.ndim else wide)
