"""Functions of two tensors: of integers in int64, whose results wrap, of others in float64."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.promotion import category, promoted, result_dtype
from aclgrad.tensors import TensorType, dtype_of_numpy


def _type(array: Array) -> TensorType:
    dtype = dtype_of_numpy(array.dtype)
    if dtype is None:
        raise TypeError(f"the wire has no data type {array.dtype}")
    return TensorType(dtype, array.shape)


def computed(*arrays: Array) -> list[Array]:
    """Returns the arrays in the type to compute in: int64 if all are of integers or bools, else float64."""
    is_real = any(category(_type(each).dtype) == 2 for each in arrays)
    return [each.astype(np.float64 if is_real else np.int64) for each in arrays]


def wrapped(result: Array, *arrays: Array) -> Array:
    """Returns integers in the type of the result, which drops the bits that it has not."""
    if result.dtype.kind not in "iu":
        return result
    dtype = result_dtype(*map(_type, arrays)).numpy
    return result.astype(np.int8 if dtype.kind == "b" else dtype)


def _arithmetic(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def compute(input: Array, other: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return wrapped(np.asarray(function(*computed(input, other))), input, other)

    return compute


def add(input: Array, other: Array, alpha: float = 1) -> Array:
    """Adds the product."""
    return np.asarray(_arithmetic(lambda one, another: one + alpha * another)(input, other))


def sub(input: Array, other: Array, alpha: float = 1) -> Array:
    """Subtracts the product."""
    return np.asarray(_arithmetic(lambda one, another: one - alpha * another)(input, other))


def div(input: Array, other: Array) -> Array:
    """Real numbers of all, also of integers, which devices divide as such."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(input.astype(np.float64) / other.astype(np.float64))


def s_where(condition: Array, input: Array, other: Array) -> Array:
    """Takes elements."""
    return wrapped(np.where(condition != 0, *computed(input, other)), input, other)


def _comparison(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def compute(input: Array, other: Array) -> Array:
        dtype = promoted(_type(input).dtype, _type(other).dtype).numpy
        return np.asarray(function(input.astype(dtype), other.astype(dtype))).astype(np.int8)

    return compute


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "add": Definition(add),
    "sub": Definition(sub),
    "mul": Definition(_arithmetic(np.multiply)),
    "div": Definition(div),
    "maximum": Definition(_arithmetic(np.maximum)),
    "minimum": Definition(_arithmetic(np.minimum)),
    "s_where": Definition(s_where),
    "eq_tensor": Definition(_comparison(np.equal)),
    "gt_tensor": Definition(_comparison(np.greater)),
}
