"""What is taken, or added, at positions along an axis."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise.definition import rounded


def _plain(array: Array) -> Array:
    """Returns integers as they are, and other numbers in float64, with an axis at least."""
    return np.atleast_1d(array if array.dtype.kind in "iu" else array.astype(np.float64))


def embedding(weight: Array, indices: Array) -> Array:
    """Each index is a row."""
    return np.asarray(_plain(weight)[indices])


def index_select(input: Array, index: Array, dim: int) -> Array:
    """Each index is a slice."""
    taken = np.take(_plain(input), np.atleast_1d(index), dim)
    return np.asarray(taken if input.ndim else taken.reshape(()))


def gather(input: Array, index: Array, dim: int) -> Array:
    """Goes from one element of the index to the next, which stands in its own row of the input."""
    wide = np.atleast_1d(index).astype(np.int64)
    inside = tuple(slice(None) if axis == dim % wide.ndim else slice(size) for axis, size in enumerate(wide.shape))
    taken = np.take_along_axis(_plain(input)[inside], wide, dim) if wide.size else np.zeros(wide.shape)
    return np.asarray(taken.reshape(index.shape))


def scatter_add(input: Array, index: Array, src: Array, dim: int) -> Array:
    """Adds one element after the other."""
    sums, wide, terms = _plain(input).copy(), np.atleast_1d(index), _plain(src)
    with np.errstate(over="ignore"):
        for place in np.ndindex(*wide.shape):
            target = list(place)
            target[dim] = int(wide[place])
            sums[tuple(target)] += terms[place]
    return sums.reshape(input.shape)


def index_add(input: Array, index: Array, source: Array, dim: int, alpha: float = 1) -> Array:
    """Adds one slice after the other."""
    sums, terms = _plain(input).copy(), _plain(source)
    factor = int(alpha) if sums.dtype.kind in "iu" else rounded(alpha)
    with np.errstate(over="ignore"):
        for place, position in enumerate(np.atleast_1d(index)):
            slices = np.moveaxis(sums, dim, 0)
            slices[position] += np.moveaxis(terms, dim, 0)[place] * np.asarray(factor).astype(sums.dtype)
    return sums.reshape(input.shape)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "embedding": Definition(embedding),
    "gather": Definition(gather),
    "index_add": Definition(index_add),
    "index_select": Definition(index_select),
    "scatter_add": Definition(scatter_add),
}
