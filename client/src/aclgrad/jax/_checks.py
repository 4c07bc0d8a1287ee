"""Checks of arguments before any computation, by the operator table, with the argument's name in errors."""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.bridges.rows import Row
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import InvalidFieldError, InvalidSettingError, Violation
from aclgrad.operators.attributes import plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import InputSpec
from aclgrad.tensors import DTYPES, TensorType

Shapes = Mapping[str, tuple[int, ...]]
_FIELD: Final = re.compile(r"(?:inputs|attributes)\[(\w+)\]")
_NAMES: Final = {"self": "input", "grad_output": "output"}


def checked_arrays(row: Row, arguments: Mapping[str, Any], shapes: Shapes) -> dict[str, jax.Array]:
    """Returns the present arguments as JAX arrays, of dtypes and ranks that the operator takes.

    `shapes` has the required shapes of the others.
    """
    output, first = row.spec.leading_input, next(iter(arguments))
    inputs = {each.python_name: each for each in row.spec.inputs}
    # A bias is added to products with the weight, so the operator need not take its dtype.
    inputs.setdefault("bias", inputs.get("weight", inputs.get("gamma", output)))
    # The same holds for the input, which is like the output.
    inputs[first] = output
    given = {
        name: _checked_array(name, value, inputs[name], is_first=name == first)
        for name, value in arguments.items()
        if value is not None or not inputs[name].is_optional
    }
    shape, most = given[first].shape, max(output.ranks)
    if row.is_linear and 0 in shape[len(shape) == most :]:
        raise InvalidFieldError.at("input.shape", f"is {shape}", f"only the first of {most} sizes, the batch, may be 0")
    for name, expected in shapes.items():
        if name in given and given[name].shape != expected:
            raise InvalidFieldError.at(f"{name}.shape", f"is {given[name].shape}", f"give {expected}")
    return given


def check_client(client: Any) -> None:
    """Raises InvalidSettingError unless it is a client."""
    if not isinstance(client, Client):
        problem, remedy = f"client is a {type(client).__name__}", "give an aclgrad.Client"
        raise InvalidSettingError(problem, field="client", remedy=remedy)


def check_array(name: str, value: Any) -> None:
    """Raises InvalidFieldError unless the value is an array of JAX or numpy."""
    if not isinstance(value, jax.Array | np.ndarray):
        raise InvalidFieldError.at(name, f"is a {type(value).__name__}", "give a jax.Array")


def checked_dtype(
    name: str, value: Any, dtypes: Sequence[str], sent: Callable[[str], str] = lambda dtype: dtype
) -> jax.Array:
    """Returns the value as a JAX array; raises InvalidFieldError unless it can be sent in one of these dtypes."""
    check_array(name, value)
    try:
        array = jnp.asarray(value)
    except TypeError:
        array = value
    if sent(str(array.dtype)) not in dtypes:
        raise InvalidFieldError.at(name, f"is {array.dtype}", f"give {' or '.join(dtypes)}")
    return array


def check_preferred(preferred_element_type: Any, dtype: np.dtype[Any]) -> None:
    """Raises InvalidFieldError if the result's dtype is not the operands'."""
    if preferred_element_type is not None and preferred_element_type != dtype:
        problem = f"is {np.dtype(preferred_element_type)} for operands of {dtype}"
        raise InvalidFieldError.at("preferred_element_type", problem, "leave it out, and cast the result")


def _checked_array(name: str, value: Any, spec: InputSpec, *, is_first: bool) -> jax.Array:
    # Integers have no gradient, although some operators copy them.
    dtypes = [each for each in _dtypes(spec) if not is_first or DTYPES[each].numpy.kind not in "iu"]
    array = checked_dtype(name, value, dtypes, lambda dtype: sent_dtype(spec, dtype))
    if array.ndim not in spec.ranks:
        ranks = " or ".join(map(str, spec.ranks))
        raise InvalidFieldError.at(f"{name}.shape", f"is {array.shape}", f"give {ranks} dimensions")
    return array


def sent_dtype(spec: InputSpec, dtype: str) -> str:
    """Returns int64 for indices if the operator needs that, because JAX's default is int32."""
    return "int64" if dtype == "int32" and dtype not in _dtypes(spec) else dtype


def _dtypes(spec: InputSpec) -> list[str]:
    return list(dict.fromkeys(dtype for dtypes in spec.dtypes.values() for dtype in dtypes))


def checked_sizes(name: str, value: Any, count: int) -> tuple[Any, ...]:
    """Returns an integer or None for each axis, from one for all or one for each."""
    each_of = value if isinstance(value, tuple | list | np.ndarray) else [value] * count
    try:
        sizes = tuple(None if each is None else index(each) for each in each_of)
    except TypeError:
        sizes = ()
    if len(sizes) != count or any(each is not None and each < 0 for each in sizes):
        raise InvalidFieldError.at(name, f"is {value!r}", f"give an integer of at least 0, or {count} of them")
    return sizes


def checked_attributes(row: Row, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values, with the operator's attributes in the sent form."""
    plain = dict(values)
    for each in row.spec.attributes:
        if each.name in values:
            try:
                plain[each.name] = plain_attribute(each.name, values[each.name], each)
                violations = tuple(each.check(plain[each.name]))
            except InvalidFieldError:
                field, problem = f"attributes[{each.name}]", f"is {values[each.name]!r}"
                violations = (Violation(field, problem, f"send {each.kind.value}"),)
            if violations:
                raise _renamed(row.parameters, violations)
    return plain


def check_call(
    client: Client,
    operator: str,
    types: Mapping[str, Any],
    attributes: Mapping[str, Any],
    parameters: Mapping[str, str],
) -> None:
    """Raises a RequestError if the server would refuse the call; `types` has the inputs' types by name.

    The error has the function's names of the operator's inputs and attributes.
    """
    specs = (each for each in OPERATORS[operator].inputs if each.name in types)
    names = {each.name: DTYPES[sent_dtype(each, str(types[each.name].dtype))] for each in specs}
    inputs = {name: TensorType(dtype, types[name].shape) for name, dtype in names.items()}
    served = served_by(client)
    try:
        served.check(served.operator(operator), inputs, attributes)
    except InvalidFieldError as error:
        raise _renamed(parameters, error.violations) from None


def check_products(client: Client, operators: Sequence[str], name: str, dtype: str) -> None:
    """Raises a RequestError if the server lacks one of the operators, or the dtype of the argument of this name."""
    type, served = TensorType(DTYPES[dtype], (1, 1, 1)), served_by(client)
    for each in operators:
        inputs = {input.name: type for input in OPERATORS[each].inputs}
        try:
            served.check(each, inputs, {})
        except InvalidFieldError as error:
            raise _renamed(dict.fromkeys(inputs, name), error.violations) from None


def _renamed(parameters: Mapping[str, str], violations: Sequence[Violation]) -> InvalidFieldError:
    """Returns an error that names the function's parameters."""
    names = {**_NAMES, **parameters}

    def renamed(text: str) -> str:
        return _FIELD.sub(lambda match: names.get(match[1], match[1]), text)

    # Several values of a list may break the same rule.
    found = dict.fromkeys(Violation(renamed(each.field), renamed(each.problem), each.remedy) for each in violations)
    return InvalidFieldError.of(*found)
