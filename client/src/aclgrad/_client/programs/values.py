"""Checks a run's arrays for the placeholders of its program."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from aclgrad._client.calls.arrays import TensorLike, as_array
from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.programs.portions import Data
from aclgrad._client.programs.table import Table
from aclgrad.errors import InvalidFieldError
from aclgrad.tensors import TensorType, dtype_of_numpy

Values = Mapping[Handle, TensorLike]
"""An array for each placeholder, as the caller gives them."""
NO_VALUES: Final[Values] = MappingProxyType({})

_FEW: Final = 3
"""Missing placeholders that an error names."""


def data_of(values: Values, program: object, needed: Collection[Placeholder], table: Table) -> Data:
    """Returns the bytes of the needed placeholders, from the caller's arrays or row-major copies; ignores others.

    Raises InvalidFieldError if a key is not a placeholder of the program, if an array has another type or shares memory
    with a step's `out`, or if one is missing.
    """
    found: dict[Placeholder, memoryview] = {}
    for handle, value in values.items():
        placeholder = handle.placeholder if isinstance(handle, Handle) and handle.is_of(program) else None
        if placeholder is None or handle.view is not None:
            problem = f"has the key {handle!r}, which is no placeholder of this program"
            raise InvalidFieldError.at("values", problem, "give what its placeholder() returned, and no view of it")
        if placeholder in needed:
            found[placeholder] = _bytes_of(value, placeholder, table)
    if len(found) < len(needed):
        missing = sorted((each for each in needed if each not in found), key=lambda each: each.number)
        more = f" and {len(missing) - _FEW} more" if len(missing) > _FEW else ""
        problem = f"lacks {'; '.join(each.label for each in missing[:_FEW])}{more}"
        raise InvalidFieldError.at("values", problem, "give an array for each placeholder that the wanted outputs need")
    return found


def _bytes_of(value: TensorLike, placeholder: Placeholder, table: Table) -> memoryview:
    array = value if type(value) is np.ndarray else as_array(f"values[{placeholder}]", value)
    wanted = placeholder.type
    dtype = dtype_of_numpy(array.dtype)
    if dtype is not wanted.dtype or array.shape != wanted.shape:
        given = TensorType(dtype, array.shape) if dtype else f"{array.dtype}{list(array.shape)}"
        problem = f"is {given}, and this is {placeholder.label}"
        raise InvalidFieldError.at(f"values[{placeholder}]", problem, f"give an array of {wanted}")
    if table.has_outs:
        table.check_apart(f"values[{placeholder}]", array)
    if not array.flags.c_contiguous or not array.dtype.isnative:
        array = np.ascontiguousarray(array, wanted.dtype.numpy)
    return array.reshape(-1).view(np.uint8).data
