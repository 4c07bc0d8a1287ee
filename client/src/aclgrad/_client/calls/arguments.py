"""From a caller's arguments to tensors, attributes and outputs, for calls and for steps of programs."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import index
from typing import Any, Final

import numpy as np

from aclgrad._client.calls.arrays import Array, TensorLike, as_array
from aclgrad._client.calls.destination import Destination, Outputs, new_arrays
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.operators.attributes import plain_attributes as plain_values
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.values import AttributeValue, checked_name

Input = TensorLike | tuple[int, ...] | TensorType
"""An array, or a tuple of sizes or a type: a tensor of that shape whose values the operator does not read."""
Inputs = Mapping[str, Input | Sequence[TensorLike] | None]
"""Inputs by wire name; None for an omitted optional one, a sequence for a list of tensors."""

_ATTRIBUTES: Final = {spec.name: {each.name: each for each in spec.attributes} for spec in OPERATORS.values()}
_OPTIONAL: Final = {spec.name: {each.name for each in spec.inputs if each.is_optional} for spec in OPERATORS.values()}
_LISTS: Final = {
    spec.name: names for spec in OPERATORS.values() if (names := {each.name for each in spec.inputs if each.is_list})
}
OUTPUTS: Final = {spec.name: tuple(each.name for each in spec.outputs) for spec in OPERATORS.values()}
"""The names of the outputs by operator."""
RETURNED: Final = {spec.name: tuple(each.name for each in spec.returned) for spec in OPERATORS.values()}
"""The names of the outputs that a caller can get."""
_LATER: Final = TensorView("", TensorType(DTYPES["float32"], ()))
"""Stands for a tensor whose dtype is not known yet."""


def input_tensors(operator: str, inputs: Inputs, tensor_of: Callable[[str, Any], TensorView]) -> tuple[TensorView, ...]:
    """Returns the tensors of the inputs; `tensor_of` makes them from values that are not shapes.

    An input that is None is omitted. A shape has the dtype of the first input that is an array. A sequence for a list
    of tensors becomes an input for each.
    """
    _check_mapping("inputs", inputs, "input names to arrays or shapes")
    if operator in _LISTS:
        inputs = _with_lists(inputs, _LISTS[operator])
    optional = _OPTIONAL.get(operator, ())
    tensors: dict[str, TensorView] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, value in inputs.items():
        if value is None and name in optional:
            continue
        if isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value):
            # Keeps its place: a later array may give its dtype.
            tensors[name], shapes[name] = _LATER, value
            continue
        if type(value) is TensorType:
            tensors[name] = TensorView(name, value)
            continue
        tensors[name] = tensor_of(name, value)
    if shapes:
        dtype = next((each.type.dtype for each in tensors.values() if each is not _LATER), None)
        if dtype is None:
            problem = "is a shape, and no other input is an array that has the dtype"
            raise InvalidFieldError.at(f"inputs[{next(iter(shapes))}]", problem, "give at least one input as an array")
        for name, shape in shapes.items():
            tensors[name] = TensorView(name, TensorType(dtype, shape))
    return tuple(tensors.values())


def _with_lists(inputs: Inputs, lists: Collection[str]) -> Inputs:
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        if name not in lists:
            found[name] = value
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            found |= {f"{name}_{place}": each for place, each in enumerate(value)}
        else:
            problem = f"is a {type(value).__name__}"
            raise InvalidFieldError.at(f"inputs[{name}]", problem, "give a sequence of arrays")
    return found


def array_of_input(name: str, value: TensorLike) -> Array:
    """Returns the array of an input; raises InvalidFieldError if it is not an array."""
    return value if type(value) is np.ndarray else as_array(f"inputs[{name}]", value)


FormKey = tuple[
    tuple[tuple[str, str, tuple[int, ...]], ...],
    tuple[tuple[str, Hashable, AttributeValue], ...],
]
"""The key of inferred outputs: names, dtypes and shapes of inputs, and names, kinds and values of attributes."""


def form_key(inputs: Iterable[TensorView], attributes: Mapping[str, AttributeValue]) -> FormKey:
    types = tuple((each.name, each.type.dtype.name, each.type.shape) for each in inputs)
    return types, tuple((name, _kind(value), value) for name, value in attributes.items())


def _kind(value: AttributeValue) -> Any:
    """Returns a key that distinguishes values equal in Python: 1, True and 1.0, and 0.0 and -0.0."""
    if isinstance(value, float):
        return value.hex()
    return tuple(map(type, value)) if isinstance(value, tuple) else type(value)


@lru_cache(4096)
def output_tensors(operator: str, key: FormKey, wanted: tuple[str, ...]) -> tuple[TensorView, ...]:
    """Returns names and types of the wanted outputs; none if the call is illegal or the operator unknown."""
    types, attributes = key
    inputs = {name: TensorType(DTYPES[dtype], shape) for name, dtype, shape in types}
    try:
        spec = OPERATORS[operator]
        given = {each.name: each.default for each in spec.attributes} | {name: value for name, _, value in attributes}
        arguments = Arguments(inputs, given, wanted)
        found = [(each.name, each.infer(arguments)) for each in spec.outputs if not wanted or each.name in wanted]
        return tuple(TensorView(name, TensorType(type.dtype, tuple(map(index, type.shape)))) for name, type in found)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return ()


def destination_of(
    operator: str, out: Outputs | None, wanted: tuple[str, ...], outputs: Sequence[TensorView]
) -> Destination:
    """Returns the destination of the wanted outputs; raises InvalidFieldError if `out` does not fit them."""
    names = OUTPUTS.get(operator, ())
    if out is None:
        return new_arrays(operator, names, wanted)
    destination = Destination(out, names, wanted, operator)
    if outputs:
        destination.check(outputs)
    return destination


def returned_names(operator: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the outputs of a single call, none for all of them: some exist only in programs."""
    returned = RETURNED.get(operator, ())
    return returned if not wanted and returned != OUTPUTS.get(operator, ()) else wanted


def wanted_names(outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the names of the wanted outputs, none for all of them; raises InvalidFieldError for invalid names."""
    if outputs is None:
        return ()
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or not outputs:
        problem = f"is {outputs!r}, which names no outputs"
        raise InvalidFieldError.at("outputs", problem, "give a sequence of names, or leave it out for all outputs")
    return tuple(checked_name("outputs", each) for each in outputs)


def plain_attributes(operator: str, attributes: Mapping[str, AttributeLike] | None) -> dict[str, AttributeValue]:
    """Returns the attributes as plain values; raises InvalidFieldError if one has no form on the wire."""
    if attributes is None:
        return {}
    _check_mapping("attributes", attributes, "attribute names to values")
    return plain_values(_ATTRIBUTES.get(operator, {}), attributes)


def _check_mapping(field: str, value: object, of: str) -> None:
    # The usual types first: isinstance of an abstract class is slower.
    if type(value) is not dict and not isinstance(value, Mapping):
        problem, remedy = f"is a {type(value).__name__}", f"give a mapping from {of}"
        raise InvalidFieldError.at(field, problem, remedy)
