"""What the functions refuse before they compute anything, by the operator table and with the argument's name."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served import served_by
from aclgrad.errors import InvalidFieldError, Violation
from aclgrad.operators.attributes import plain_attribute
from aclgrad.operators.spec import InputSpec, OperatorSpec
from aclgrad.tensors import DTYPES, TensorType

Names = Mapping[str, str]
"""The function's parameters, by what the operator calls them."""

_FIELD: Final = re.compile(r"(?:inputs|attributes)\[(\w+)\]")
_NAMES: Final = {
    "self": "input",
    "grad_output": "output",
    "pooled_height": "output_size",
    "pooled_width": "output_size",
}


def checked_arrays(spec: OperatorSpec, input: Any, *others: Any) -> list[jax.Array]:
    """Returns the arguments as arrays of JAX, of dtypes and ranks that the operator takes."""
    ranks = spec.inputs[0].ranks
    # Integers have no gradient, although some operators copy them.
    dtypes = [each for each in _dtypes(spec.inputs[0]) if DTYPES[each].numpy.kind not in "iu"]
    array = _checked_array("input", input, dtypes, spec.inputs[0])
    if 0 in array.shape[array.ndim == max(ranks) :]:
        remedy = f"only the first of {max(ranks)} sizes, the batch, may be 0"
        raise InvalidFieldError.at("input.shape", f"is {array.shape}", remedy)
    arrays = [array]
    for each, value in zip(spec.inputs[-len(others) :], others, strict=False):
        arrays.append(_checked_array(each.name, value, _dtypes(each), each))
        shape = arrays[-1].shape
        expected = (shape[0], 5) if each.name == "boxes" else array.shape
        if shape != expected:
            raise InvalidFieldError.at(f"{each.name}.shape", f"is {shape}", f"give {expected}")
    return arrays


def checked_named(
    spec: OperatorSpec, arguments: Mapping[str, Any], shapes: Callable[[tuple[int, ...]], Mapping[str, tuple[int, ...]]]
) -> dict[str, jax.Array]:
    """Returns the arguments that are not None as arrays of JAX, of dtypes and ranks that the operator takes.

    `shapes` returns those that they must have, beside an input of the given shape.
    """
    inputs = {each.python_name: each for each in spec.inputs}
    # Where the operator takes the function's output, the input is like it.
    inputs.setdefault("input", spec.inputs[0])
    # A bias is added to products with the weight, and the operator need not take it.
    inputs.setdefault("bias", inputs.get("weight", inputs.get("gamma", spec.inputs[0])))
    # Nor the input, if it takes the output.
    inputs.setdefault("input", spec.inputs[0])
    name, value = next(iter(arguments.items()))
    check_array(name, value)
    given = {
        name: _checked_array(name, value, _dtypes(inputs[name]), inputs[name])
        for name, value in arguments.items()
        if value is not None
    }
    for name, shape in shapes(next(iter(given.values())).shape).items():
        if name in given and given[name].shape != shape:
            raise InvalidFieldError.at(f"{name}.shape", f"is {given[name].shape}", f"give {shape}")
    return given


def check_array(name: str, value: Any) -> None:
    """Raises InvalidFieldError unless the value is an array of JAX or numpy."""
    if not isinstance(value, jax.Array | np.ndarray):
        raise InvalidFieldError.at(name, f"is a {type(value).__name__}", "give a jax.Array")


def _checked_array(name: str, value: Any, dtypes: Sequence[str], spec: InputSpec) -> jax.Array:
    check_array(name, value)
    try:
        array = jnp.asarray(value)
    except TypeError:
        array = value
    if sent_dtype(spec, str(array.dtype)) not in dtypes:
        raise InvalidFieldError.at(name, f"is {array.dtype}", f"give {' or '.join(dtypes)}")
    if array.ndim not in spec.ranks:
        ranks = " or ".join(map(str, spec.ranks))
        raise InvalidFieldError.at(f"{name}.shape", f"is {array.shape}", f"give {ranks} dimensions")
    return array


def sent_dtype(spec: InputSpec, dtype: str) -> str:
    """Returns int64 for indices if the operator needs that: by default JAX makes int32."""
    return "int64" if dtype == "int32" and dtype not in _dtypes(spec) else dtype


def _dtypes(spec: InputSpec) -> list[str]:
    return list(dict.fromkeys(dtype for dtypes in spec.dtypes.values() for dtype in dtypes))


def checked_sizes(name: str, value: Any, count: int) -> tuple[Any, ...]:
    """Returns a value for each axis, from one for all of them or one for each; they are integers or None."""
    each_of = value if isinstance(value, tuple | list | np.ndarray) else [value] * count
    try:
        sizes = tuple(None if each is None else operator.index(each) for each in each_of)
    except TypeError:
        sizes = ()
    if len(sizes) != count or any(each is not None and each < 0 for each in sizes):
        raise InvalidFieldError.at(name, f"is {value!r}", f"give an integer of at least 0, or {count} of them")
    return sizes


def checked_attributes(spec: OperatorSpec, values: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Returns the values, those of the operator's attributes in the form that is sent."""
    plain = dict(values)
    for each in spec.attributes:
        if each.name in values:
            try:
                plain[each.name] = plain_attribute(each.name, values[each.name], each)
                violations = tuple(each.check(plain[each.name]))
            except InvalidFieldError:
                field, problem = f"attributes[{each.name}]", f"is {values[each.name]!r}"
                violations = (Violation(field, problem, f"send {each.kind.value}"),)
            if violations:
                raise _renamed(violations, names)
    return plain


def check(
    client: Client, spec: OperatorSpec, types: Sequence[Any], attributes: Mapping[str, Any], names: Names
) -> None:
    """Raises a RequestError for a call that the server would refuse; `types` are those of the operator's inputs."""
    check_named(client, spec, dict(zip((each.name for each in spec.inputs), types, strict=True)), attributes, names)


def check_named(
    client: Client, spec: OperatorSpec, types: Mapping[str, Any], attributes: Mapping[str, Any], names: Names
) -> None:
    """Is `check` for types by the names of the inputs, of which some may be absent."""
    inputs = {
        each.name: TensorType(DTYPES[sent_dtype(each, str(types[each.name].dtype))], types[each.name].shape)
        for each in spec.inputs
        if each.name in types
    }
    served = served_by(client)
    try:
        served.check(served.operator(spec.name), inputs, attributes)
    except InvalidFieldError as error:
        raise _renamed(error.violations, names) from None


def _renamed(violations: Sequence[Violation], names: Names) -> InvalidFieldError:
    """Returns an error that names the function's parameters."""

    def told(text: str) -> str:
        return _FIELD.sub(lambda match: {**_NAMES, **names}.get(match[1], match[1]), text)

    # Of a list, several values may break the same rule.
    found = dict.fromkeys(Violation(told(each.field), told(each.problem), each.remedy) for each in violations)
    return InvalidFieldError.of(*found)
