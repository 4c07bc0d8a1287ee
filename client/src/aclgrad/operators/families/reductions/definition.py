"""What the elements along axes are reduced to."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition


def reduce_sum(input: Array, dims: Sequence[int] = (), keep_dims: bool = False, dtype: Any = None) -> Array:
    """Adds up along the axes, or along all of them; what is not there adds up to 0."""
    wide = input.astype(np.float64)
    return np.asarray(np.sum(wide, tuple(dims) or None, keepdims=keep_dims) if wide.ndim else wide)


def mean(input: Array, dim: Sequence[int] = (), keep_dim: bool = False, dtype: Any = None) -> Array:
    """The sum by the number of its terms; NaN of no terms."""
    sums = reduce_sum(input, dim, keep_dim)
    terms = reduce_sum(np.ones(input.shape), dim, keep_dim)
    with np.errstate(invalid="ignore"):
        # No sum is of anything then, even if others could be.
        return np.full(sums.shape, np.nan) if input.size == 0 else np.asarray(sums / terms)


def amax(input: Array, dim: Sequence[int] = (), keep_dim: bool = False) -> Array:
    """NaN if there is one."""
    plain = input if input.dtype.kind in "iu" else input.astype(np.float64)
    return np.asarray(np.max(plain, tuple(dim) or None, keepdims=keep_dim) if plain.ndim else plain)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "amax": Definition(amax),
    "mean": Definition(mean),
    "reduce_sum": Definition(reduce_sum),
}
