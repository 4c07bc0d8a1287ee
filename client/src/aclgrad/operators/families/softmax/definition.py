"""Softmax and its logarithm along one axis, and their gradients."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition


def softmax(input: Array, dim: int) -> Array:
    """Returns the powers of e, divided by their sum along the axis."""
    return np.asarray(np.exp(log_softmax(input, dim)))


def log_softmax(input: Array, dim: int) -> Array:
    """Returns the logarithm of softmax, which overflows for no number."""
    wide = input.astype(np.float64)
    if not wide.ndim or not wide.size:
        return wide - wide
    with np.errstate(invalid="ignore"):
        below: Array = wide - wide.max(dim, keepdims=True)
        return np.asarray(below - np.log(np.exp(below).sum(dim, keepdims=True)))


def rows_along(dim: int, *arrays: Array) -> list[Array]:
    """Returns the arrays in float64 with the axis last; a scalar is a row of one."""
    return [np.moveaxis(np.atleast_1d(each.astype(np.float64)), dim, -1) for each in arrays]


def softmax_backward(grad_output: Array, output: Array, dim: int) -> Array:
    """Row by row: the product with the Jacobian of softmax, which the output gives."""
    grads, outputs = rows_along(dim, grad_output, output)
    gradient = np.zeros(grads.shape)
    for row in np.ndindex(*grads.shape[:-1]):
        gradient[row] = outputs[row] * (grads[row] - outputs[row] @ grads[row])
    return np.moveaxis(gradient, -1, dim).reshape(output.shape)


def shifted_softmax(grad_output: Array, output: Array, dim: int, input: Array) -> Array:
    """Adds the input to one that has this output."""
    return softmax(np.log(output.astype(np.float64)) + input, dim)


def log_softmax_backward(grad_output: Array, output: Array, dim: int) -> Array:
    """Multiplies each row by the transposed Jacobian: the identity less softmax in each of its rows."""
    grads, outputs = rows_along(dim, grad_output, output)
    gradient = np.zeros(grads.shape)
    for row in np.ndindex(*grads.shape[:-1]):
        gradient[row] = grads[row] - np.exp(outputs[row]) * grads[row].sum()
    return np.moveaxis(gradient, -1, dim).reshape(output.shape)


def shifted_log_softmax(grad_output: Array, output: Array, dim: int, input: Array) -> Array:
    """Adds the input to one that has this output."""
    return log_softmax(output.astype(np.float64) + input, dim)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "log_softmax": Definition(log_softmax),
    "log_softmax_backward": Definition(log_softmax_backward, shifted_log_softmax),
    "softmax": Definition(softmax),
    "softmax_backward": Definition(softmax_backward, shifted_softmax),
}
