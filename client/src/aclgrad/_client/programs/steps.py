"""The steps of a program: calls that keep their arrays and may use outputs of earlier steps."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from aclgrad._client.calls.arguments import (
    OUTPUTS,
    RETURNED,
    FormKey,
    Inputs,
    array_of_input,
    destination_of,
    form_key,
    input_tensors,
    output_tensors,
    plain_attributes,
    wanted_names,
)
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.destination import NOTHING, Destination, Outputs, new_arrays
from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.requirements import Requirements, unsent
from aclgrad._client.programs.table import Entry, Table
from aclgrad.errors import RequestError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import check_on_any_product
from aclgrad.tensors import TensorType, TensorView, View, type_of_array
from aclgrad.wire.messages import OperatorCall, request_head
from aclgrad.wire.values import AttributeValue, checked_name, tensor_field

_FIELD_BYTES: Final = 16
"""The most bytes of a step's or input's keys and lengths, and of a reference."""
_NUMBER_BYTES: Final = 10
"""The most bytes of a number."""
_OUTPUT_FIELDS_BYTES: Final = 256
"""The most bytes before the data of an output in a reply."""
_PACKAGE: Final = __name__.partition(".")[0]


class Form(NamedTuple):
    """The key of steps that differ only in the values of their inputs."""

    head: bytes
    """The bytes of a step beside its tensors."""
    outputs: tuple[TensorView, ...]
    rest_bytes: int
    """The most bytes in a request beside tensors' data and views."""
    reply_bytes: int
    """The bytes of the outputs in a reply, 0 if unknown: the server says why."""


class StepInput(NamedTuple):
    """An input: a tensor of the program's table, an output of an earlier step, or a shape alone if it has neither."""

    name: str
    type: TensorType
    view: View | None = None
    entry: Entry | Placeholder | None = None
    step: int | None = None
    output: str = ""


class Step:
    """One step. Its arrays have been read, so later changes do not matter."""

    __slots__ = ("attributes", "form", "inputs", "operator", "out", "place", "wanted")

    def __init__(
        self,
        operator: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None,
        requirements: Requirements,
        table: Table,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
        check_handle: Callable[[str, Handle], None] | None = None,
    ) -> None:
        """Takes the arguments of `execute`. `check_handle` raises an error for a handle of another program.

        Raises InvalidFieldError as a call does: `out` may not overlap an input unless only the shape of that is sent.
        """
        if type(operator) is not str:
            checked_name("operator", operator)
        self.wanted = wanted_names(outputs)
        """The names of the wanted outputs; none for all."""
        shapes = unsent(requirements.withheld, operator, self.wanted)
        arrays: dict[str, Array] = {}
        handles: dict[str, Handle] = {}

        def tensor_of(name: str, value: Any) -> TensorView:
            if check_handle is not None and isinstance(value, Handle):
                check_handle(name, value)
                handles[name] = value
                return TensorView(name, value.type)
            arrays[name] = array = array_of_input(name, value)
            return TensorView(name, type_of_array(name, array))

        tensors = input_tensors(operator, inputs, tensor_of)
        for each in tensors:
            checked_name("inputs", each.name)
        self.attributes: dict[str, AttributeValue] = plain_attributes(operator, attributes)
        self.operator = operator
        self.form = _form(operator, form_key(tensors, self.attributes), self.wanted)
        self.out = out
        if out is not None:
            destination = destination_of(operator, out, self.wanted, self.form.outputs)
            destination.check_apart((name, each) for name, each in arrays.items() if name not in shapes)
            for field, array in destination.given():
                table.claim(field, array)
        # Last, because it copies.
        self.inputs = tuple(_input(each, handles.get(each.name), arrays.get(each.name), table) for each in tensors)
        self.place = ""
        """Where the caller added the step; may be empty."""

    def destination(self, returned: tuple[str, ...]) -> Destination:
        """Returns the destination of its returned outputs; an `out` for another is not written."""
        names = OUTPUTS.get(self.operator, ())
        if names and not returned:
            return NOTHING
        if self.out is None:
            return new_arrays(self.operator, names, returned)
        out = self.out
        if isinstance(out, tuple | list) and len(names) > 1:
            out = tuple(each if name in returned else None for name, each in zip(names, out, strict=True))
        return Destination(out, names, returned, self.operator)

    @property
    def rest_bytes(self) -> int:
        """The most bytes in a request beside tensors' data."""
        rest_bytes = self.form.rest_bytes
        for each in self.inputs:
            if each.view is not None:
                rest_bytes += _FIELD_BYTES + _NUMBER_BYTES * (1 + len(each.view.strides))
        return rest_bytes

    @property
    def outputs(self) -> tuple[TensorView, ...]:
        """Names and types of the wanted outputs; none if the call is illegal or the operator unknown."""
        return self.form.outputs

    @property
    def returned(self) -> tuple[str, ...]:
        """The names of all outputs that the caller may get; none if unknown."""
        return self.wanted or RETURNED.get(self.operator, ())

    def why_nothing_follows(self) -> str:
        """Returns the problem of the call, whose outputs do not follow from its inputs and attributes."""
        inputs = tuple(TensorView(each.name, each.type) for each in self.inputs)
        try:
            check_on_any_product(
                OperatorCall(self.operator, inputs, self.attributes, outputs=self.wanted), OPERATORS[self.operator]
            )
        except RequestError as refusal:
            return f"is not legal: {refusal.message}"
        return "has inputs and attributes from which no output follows"

    @property
    def label(self) -> str:
        """The operator, and where the step was added."""
        return f"{self.operator}, {self.place}" if self.place else self.operator


@lru_cache(4096)
def _form(operator: str, key: FormKey, wanted: tuple[str, ...]) -> Form:
    types, attributes = key
    head = request_head(operator, {name: value for name, _, value in attributes})
    outputs = output_tensors(operator, key, wanted)
    fields = sum(2 * _FIELD_BYTES + len(name) + _NUMBER_BYTES * len(shape) for name, _, shape in types)
    names = sum(_FIELD_BYTES + len(each) for each in wanted)
    reply_bytes = sum(each.type.size_bytes + _OUTPUT_FIELDS_BYTES for each in outputs)
    return Form(head, outputs, len(head) + _FIELD_BYTES + fields + names, reply_bytes)


def _input(tensor: TensorView, handle: Handle | None, array: Array | None, table: Table) -> StepInput:
    if handle is not None and handle.placeholder is not None:
        return StepInput(tensor.name, tensor.type, handle.view, handle.placeholder)
    if handle is not None:
        return StepInput(tensor.name, tensor.type, handle.view, None, handle.step, handle.output)
    if array is None:
        # The wire may be unable to hold the shape.
        tensor_field(0, tensor)
        return StepInput(tensor.name, tensor.type)
    entry, view = table.keep(array, tensor.type)
    return StepInput(tensor.name, tensor.type, view, entry)


def place_of_caller() -> str:
    """Returns file and line of the first frame outside of this package."""
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect` reads files for it
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return f"{_base_name(frame.f_code.co_filename)}:{frame.f_lineno}"


@lru_cache
def _base_name(path: str) -> str:
    return Path(path).name
