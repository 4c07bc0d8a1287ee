"""Softmax and its logarithm along one axis, in float64."""

import numpy as np

from aclgrad.operators.definitions import Array


def softmax(input: Array, dim: int) -> Array:
    """Returns the powers of e, divided by their sum along the axis."""
    return np.asarray(np.exp(log_softmax(input, dim)))


def log_softmax(input: Array, dim: int) -> Array:
    """Returns the logarithm of softmax, which overflows for no number."""
    if not input.ndim or not input.size:
        return np.zeros(input.shape)
    below: Array = input - input.max(dim, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(dim, keepdims=True)))


def rows_along(dim: int, *arrays: Array) -> list[Array]:
    """Returns the arrays in float64 with the axis last; a scalar is a row of one."""
    return [np.moveaxis(np.atleast_1d(each.astype(np.float64)), dim, -1) for each in arrays]
