"""From a caller's attribute to the plain value that is sent, for every way to send a call."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from aclgrad.errors import InvalidFieldError
from aclgrad.operators.spec import AttributeKind, AttributeSpec
from aclgrad.tensors import DTYPES, DType, dtype_of_numpy
from aclgrad.wire.values import AttributeValue, unsendable_attribute

AttributeLike = AttributeValue | np.ndarray[Any, Any] | np.dtype[Any] | type[Any] | None
"""A caller's attribute; numpy's numbers count as numbers, and None omits an optional one."""

_PLAIN = frozenset({bool, int, float, DType})


def plain_attributes(
    specs: Mapping[str, AttributeSpec], attributes: Mapping[str, AttributeLike]
) -> dict[str, AttributeValue]:
    """Returns the plain values of the given attributes; raises InvalidFieldError like `plain_attribute`."""

    def is_left_out(name: str, value: object) -> bool:
        return value is None and name in specs and specs[name].is_optional

    return {
        name: plain_attribute(name, value, specs.get(name))
        for name, value in attributes.items()
        if not is_left_out(name, value)
    }


def plain_attribute(name: str, value: object, spec: AttributeSpec | None) -> AttributeValue:
    """Returns the value as a bool, an int, a float, a text, a data type or a tuple of ints or of bools.

    An integer may stand for a list if one is enough, an array of one element for a value, an integer for a number, and
    a name or numpy's type for a data type. The server checks whether the value is legal: raises InvalidFieldError only
    if the value has none of these forms.
    """
    kind = None if spec is None else spec.kind
    try:
        plain = _plain(value, kind)
        if spec is not None and type(plain) is int:
            if kind is AttributeKind.DOUBLE:
                return float(plain)
            if kind is AttributeKind.INTS and 1 in spec.lengths:
                return (plain,)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidFieldError.of(unsendable_attribute(name, value)) from error
    return plain


def _plain(value: object, kind: AttributeKind | None) -> AttributeValue:
    if kind is AttributeKind.DATA_TYPE:
        return _data_type(value)
    if isinstance(value, str):
        return str(value)
    if type(value) in _PLAIN:
        return value  # type: ignore[return-value]
    if isinstance(value, tuple | list):
        return _items(value, kind)
    if isinstance(value, np.ndarray):
        wants_one = kind not in (AttributeKind.INTS, AttributeKind.BOOLS, None)
        value = value.item() if value.ndim == 0 or (wants_one and value.size == 1) else value.tolist()
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, SupportsIndex):
        return operator.index(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return _items(value, kind)
    raise TypeError(f"{type(value).__name__} is not an attribute")


def _items(values: Sequence[Any], kind: AttributeKind | None) -> tuple[int, ...]:
    """Returns a list of integers, or of bools if the operator takes those or is unknown."""
    if kind is not AttributeKind.INTS and values and all(isinstance(each, bool | np.bool_) for each in values):
        return tuple(map(bool, values))
    return tuple(map(operator.index, values))


def _data_type(value: Any) -> AttributeValue:
    """Returns the data type of its name, of numpy's type, or of a framework's; other plain values as they are."""
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    name = str(value).removeprefix("torch.")
    if name in DTYPES:
        return DTYPES[name]
    if isinstance(value, str):
        return str(value)
    dtype = dtype_of_numpy(np.dtype(value))
    if dtype is None:
        raise TypeError(f"the wire has no data type {value}")
    return dtype
