"""The clients' methods and what they return, as code."""

import textwrap

from aclgrad.operators.spec import AttributeKind, AttributeSpec, InputSpec, OperatorSpec
from aclgrad.tensors import DType
from aclgrad.wire.values import AttributeValue

WIDTH = 120

OUTPUTS = '''\
"""What operators with several outputs return: arrays by the names of the outputs."""

# Generated from the operator table by `make generate`; do not edit.
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

{classes}
OUTPUTS: Final[Mapping[str, type[tuple[Array | Any, ...]]]] = {{
{rows}
}}
"""The types by the wire names of the operators."""
'''


METHODS = '''\
"""One method for each operator. Generated from the operator table by `make generate`; do not edit."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from aclgrad._client.calls.arrays import Array, TensorLike
from aclgrad._client.calls.destination import Output, Outputs
from aclgrad._client.calls.arguments import Input, Inputs
from aclgrad._client.calls.handles import Handle
from aclgrad._client.settings.checks import DEFAULT, Timeout
{types}from aclgrad.operators.attributes import AttributeLike
from aclgrad.tensors import DType

Result = TypeVar("Result")
Ints = Sequence[int] | np.ndarray[Any, Any]
DataType = DType | str | np.dtype[Any] | type[Any]
"""A data type of the wire, by its name too, or numpy's."""


class OperatorMethods(ABC, Generic[Result]):
    """The operators as methods; `timeout_s` is the time limit of one call, None for no limit, by default the client's.

    With `out`, the output is written to that array. A method returns the output, an awaitable of it, its position in a
    batch or its handle in a program, depending on the subclass. An operator with several outputs returns a NamedTuple,
    with None for those that are not among the wanted `outputs`; `out` is a tuple like that then.

    Of an input that may be a tuple of sizes, only the shape is sent, unless the server needs the values. The tuple has
    the dtype of the first array.
    """

    @abstractmethod
    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Result:
        """Returns the output of any operator of the server, by its wire names.

        An input is anything that numpy can read, or a CPU tensor of another library; it must not change before the call
        has ended. A tuple of sizes as an input sends the shape alone; its dtype is that of the first array. If the
        server needs the values, it raises InputValuesRequiredError.

        Of an operator with several outputs it returns a NamedTuple. `outputs` names those that are wanted, by default
        all; others are None there, and neither computed where that saves work nor sent.

        With `out`, a writable array or CPU tensor of the output's dtype and shape, it is written there, and that
        is what is returned. After an error, or if the caller leaves before the call has ended, `out` may hold a part of
        the output; a call that was cancelled may still write to it for a moment. For several outputs it is a
        tuple of these, with None for an output that is not wanted or goes to a new array.
        """
'''


PYTHON_TYPES = {
    AttributeKind.BOOL: "bool",
    AttributeKind.INT: "int",
    AttributeKind.DOUBLE: "float",
    AttributeKind.INTS: "Ints",
    AttributeKind.TEXT: "str",
    AttributeKind.BOOLS: "Sequence[bool]",
    AttributeKind.DATA_TYPE: "DataType",
    AttributeKind.SCALAR: "float",
}


def outputs_name(spec: OperatorSpec) -> str:
    return spec.symbol.removeprefix("aclnn") + "Outputs"


def outputs_class(spec: OperatorSpec) -> str:
    # An output that was asked for is never None: nobody has to say so to a type checker.
    fields = "".join(f'    {each.name}: Array | Any\n    """{each.rule}"""\n' for each in spec.outputs)
    about = f"The outputs of `{spec.name}`; one that is not wanted is None."
    return f'\nclass {outputs_name(spec)}(NamedTuple):\n    """{about}"""\n\n{fields}\n'


def method(spec: OperatorSpec) -> str:
    is_several = len(spec.outputs) > 1
    arguments = [*map(input_parameter, spec.inputs), *map(attribute_parameter, spec.attributes)]
    # Python wants those without a default first.
    arguments.sort(key=lambda each: " = " in each)
    outs = {"out": "Outputs", "outputs": "Sequence[str]"} if is_several else {"out": "Output"}
    options = ["timeout_s: Timeout = DEFAULT", *(f"{name}: {kind} | None = None" for name, kind in outs.items())]
    parameters = ", ".join([*arguments, "*", *options])
    sent = ", ".join(f'"{each.name}": {each.python_name}' for each in spec.inputs)
    given = ", ".join(f'"{each.name}": {each.name}' for each in spec.attributes)
    passed = ", ".join(f"{each}={each}" for each in ("timeout_s", *outs))
    forms = overloads(spec, parameters) if is_several else ""
    body = f'''{forms}
def {spec.name}(self, {parameters}) -> {"Any" if is_several else "Result"}:
    """{docstring(spec)}
    """
    inputs: Inputs = {{{sent}}}
    return self.execute("{spec.name}", inputs, {{{given}}}, {passed})
'''
    return textwrap.indent(body, "    ")


def overloads(spec: OperatorSpec, parameters: str) -> str:
    """Returns the types of the method in each subclass: a type variable cannot stand for what holds a result."""
    several = outputs_name(spec)
    results = {
        "OperatorMethods[Array] | OperatorMethods[Handle]": several,
        "OperatorMethods[Coroutine[Any, Any, Array]]": f"Coroutine[Any, Any, {several}]",
        "OperatorMethods[int]": "int",
    }
    return "".join(
        f"\n@overload\ndef {spec.name}(self: {one}, {parameters}) -> {result}: ...\n" for one, result in results.items()
    )


def input_parameter(spec: InputSpec) -> str:
    kind = "Sequence[TensorLike]" if spec.is_list else "Input" if spec.may_be_shape else "TensorLike"
    return f"{spec.python_name}: {kind}{' | None = None' if spec.is_optional else ''}"


def attribute_parameter(spec: AttributeSpec) -> str:
    default = "" if spec.default is None else f" = {_literal(spec.default)}"
    alone = "int | " if 1 in spec.lengths and spec.kind is AttributeKind.INTS else ""
    absent = " | None = None" if spec.is_optional else ""
    return f"{spec.name}: {alone}{PYTHON_TYPES[spec.kind]}{absent or default}"


def _literal(value: AttributeValue) -> str:
    return repr(str(value)) if isinstance(value, DType) else repr(value)


def docstring(spec: OperatorSpec) -> str:
    def entry(name: str, summary: str) -> str:
        text = f"{name}: {summary.replace('`self`', '`input`')}"
        return textwrap.fill(text, WIDTH - 4, initial_indent=" " * 8, subsequent_indent=" " * 12)

    lines = [
        spec.summary,
        "",
        textwrap.fill(spec.formula, WIDTH - 4, initial_indent=" " * 4, subsequent_indent=" " * 4),
        "",
        "    Args:",
        *(entry(each.python_name, input_summary(each)) for each in spec.inputs),
        *(entry(each.name, each.summary) for each in spec.attributes),
        "",
        *returned(spec),
        "",
        "    Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.",
    ]
    return "\n".join(lines)


def returned(spec: OperatorSpec) -> list[str]:
    rules = {each.name: each.rule.replace("`self`", "`input`") for each in spec.outputs}
    if len(rules) == 1:
        return [f"    Returns: {rule}" for rule in rules.values()]
    return ["    Returns:", *(f"        {name}: {rule}" for name, rule in rules.items())]


def input_summary(spec: InputSpec) -> str:
    dtypes = sorted({dtype for each in spec.dtypes.values() for dtype in each})
    summary = f"{spec.summary} {', '.join(dtypes)} (fewer on some products)."
    if spec.of_outputs:
        return f"{summary} Without {' and '.join(spec.of_outputs)}, a tuple of sizes will do."
    return f"{summary} A tuple of sizes will do." if spec.may_be_shape else summary
