"""The data types of results, by PyTorch's rules of promotion."""

from typing import Final

import numpy as np

from aclgrad.tensors import DTYPES, DType, TensorType

_SIGNED: Final = ("int8", "int16", "int32", "int64")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")

Scalar = float | int | bool


def promoted(one: DType, other: DType) -> DType:
    """Returns the type that holds both, like torch.promote_types, for real numbers, integers and bools."""
    if one is other or category(other) < category(one):
        return one
    if category(one) < category(other):
        return other
    names = {one.name, other.name}
    if category(one) == 2:
        wide = max(one, other, key=lambda each: _FLOATS.index(each.name))
        return DTYPES["float32"] if names == {"float16", "bfloat16"} else wide
    if "uint8" in names:
        (signed,) = names - {"uint8"}
        return DTYPES["int16" if signed == "int8" else signed]
    return max(one, other, key=lambda each: _SIGNED.index(each.name))


def category(dtype: DType) -> int:
    """Returns 0 for bools, 1 for integers and 2 for real numbers."""
    return 0 if dtype.name == "bool" else 1 if dtype.numpy.kind in "iu" else 2


def result_dtype(*types: TensorType) -> DType:
    """Returns the type of a result of these tensors.

    Among the scalars, the tensors without axes, only those of a higher category count than the others have.
    """
    found: list[DType] = []
    for group in ([each.dtype for each in types if each.rank], [each.dtype for each in types if not each.rank]):
        for number, dtype in enumerate(group):
            found = [*found[:-1], promoted(found[-1], dtype)] if number else [*found, dtype]
    if len(found) == 1 or category(found[1]) <= category(found[0]):
        return found[0]
    return promoted(*found)


def with_number(dtype: DType, number: Scalar) -> DType:
    """Returns the type of a result of a tensor and a number, which only matters if it is of a higher category."""
    own = "bool" if isinstance(number, bool) else "int64" if isinstance(number, int) else "float32"
    return dtype if category(DTYPES[own]) <= category(dtype) else DTYPES[own]


def holds(dtype: DType, number: Scalar) -> bool:
    """Returns whether the type represents the number exactly."""
    if category(dtype) == 2:
        with np.errstate(over="ignore"):
            return float(np.asarray(number, np.float64).astype(dtype.numpy)) == number
    least, most = (0, 1) if dtype.name == "bool" else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
    return float(number).is_integer() and least <= number <= most
