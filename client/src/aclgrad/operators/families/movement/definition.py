"""What is moved where."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition, shape_of
from aclgrad.operators.families.elementwise.definition import rounded
from aclgrad.tensors import row_major


def _plain(array: Array) -> Array:
    """Returns a copy in float64, of bools in int8, and of integers as they are."""
    return array.astype(np.int8 if array.dtype.kind == "b" else array.dtype if array.dtype.kind in "iu" else np.float64)


def inplace_copy(
    input: Array | Sequence[int],
    src: Array,
    shape: Sequence[int] | None = None,
    offset: int = 0,
    strides: Sequence[int] | None = None,
) -> Array:
    """Writes to the elements one by one, by their numbers."""
    whole = input if isinstance(input, np.ndarray) else np.zeros(shape_of(input), src.dtype)
    sizes = whole.shape if shape is None else tuple(shape)
    numbers = np.full(sizes, offset, np.int64)
    steps = row_major(sizes) if strides is None else strides
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        numbers += np.arange(size).reshape([-1 if axis == each else 1 for each in range(len(sizes))]) * step
    written = _plain(whole).reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        converted = src.astype(whole.dtype) if whole.dtype.kind in "iub" else src.astype(np.float64)
    written[numbers.reshape(-1)] = np.broadcast_to(converted, sizes).reshape(-1)
    return written.reshape(whole.shape)


def inplace_fill_scalar(input: Array | Sequence[int], value: float) -> Array:
    """The number, of a float as float32 has it."""
    dtype = input.dtype if isinstance(input, np.ndarray) else np.dtype(np.float64)
    number = rounded(value) if isinstance(value, float) else value
    return _plain(np.full(shape_of(input), number, dtype if dtype.kind in "iub" else np.float64))


def cat(dim: int = 0, **tensors: Array) -> Array:
    """Leaves out what has neither elements nor axes beside the one."""
    kept = [each for each in tensors.values() if each.shape != (0,)]
    if not kept:
        return np.zeros(0)
    is_real = any(each.dtype.kind not in "iub" for each in tensors.values())
    return np.concatenate([each.astype(np.float64) if is_real else _plain(each) for each in kept], dim)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "inplace_copy": Definition(inplace_copy),
    "inplace_fill_scalar": Definition(inplace_fill_scalar),
    "cat": Definition(cat),
}
