"""The call of an operator: from a caller's arguments to what is sent, without any input or output."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import index
from typing import Any, Final, cast

import numpy as np
from google.rpc import status_pb2

from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.calls.arrays import Array, TensorLike, as_array
from aclgrad._client.calls.chunked import Announced, ChunkedProgram, Taken
from aclgrad._client.calls.destination import ONE, Destination, Outputs, new_arrays
from aclgrad._client.calls.lender import Lender, TakeOver
from aclgrad._client.calls.requirements import LARGE_BYTES, Requirements
from aclgrad.errors import AclgradError, InputValuesRequiredError, InvalidFieldError
from aclgrad.operators.attributes import AttributeLike, plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.sources import SharedRange
from aclgrad.tensors import (
    DTYPES,
    TensorType,
    TensorView,
    array_of_view,
    dense_elements,
    input_of_array,
    type_of_array,
)
from aclgrad.wire.chunks import encode_step_header
from aclgrad.wire.limits import MAX_INPUTS
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request
from aclgrad.wire.values import AttributeValue, checked_name

Input = TensorLike | tuple[int, ...]
"""An array, or a tuple of sizes: a tensor of that shape whose values the operator does not read."""
Inputs = Mapping[str, Input | None]
"""Inputs by wire name; None for one that is optional and left out."""

_INLINE_BYTES: Final = 64 * 2**10
"""An input of no more bytes goes with the header, unless chunks are so small that the header would be larger."""
_ATTRIBUTES: Final = {spec.name: {each.name: each for each in spec.attributes} for spec in OPERATORS.values()}
_OPTIONAL: Final = {spec.name: {each.name for each in spec.inputs if each.is_optional} for spec in OPERATORS.values()}
OUTPUTS: Final = {spec.name: tuple(each.name for each in spec.outputs) for spec in OPERATORS.values()}
"""The names of the outputs by operator."""
_LATER: Final = TensorView("", TensorType(DTYPES["float32"], ()))
"""In place of a tensor whose dtype is not known yet."""


class Call(Lender[Array]):
    """Executes one operator."""

    method = "ExecuteOperator"
    __slots__ = (
        "_chunk_bytes",
        "_requirements",
        "destination",
        "operator",
        "outputs",
        "sent",
        "withheld",
    )

    def __init__(
        self,
        operator: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None,
        requirements: Requirements,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Takes the arguments of `execute`; `outputs` names those that are wanted, by default all.

        An input that is None is left out. One that came as a shape has the dtype of the first input that is an array.
        Raises InvalidFieldError if an array or an attribute has no form on the wire, and for an `out` that does not
        fit.
        """
        if type(operator) is not str:
            checked_name("operator", operator)
        unsent = requirements.withheld.get(operator, ())
        self.withheld: dict[str, Array] = {}
        """The caller's arrays of which only the shape is sent."""

        def tensor_of(name: str, value: TensorLike) -> TensorView:
            array = array_of_input(name, value)
            if name not in unsent:
                return input_of_array(name, array)
            self.withheld[name] = array
            return TensorView(name, type_of_array(name, array))

        views = input_tensors(operator, inputs, tensor_of)
        self.operator = operator
        self.sent = OperatorCall(operator, views, plain_attributes(operator, attributes), outputs=wanted_names(outputs))
        self.outputs = output_tensors(operator, form_key(views, self.sent.attributes), self.sent.outputs)
        """Names and types of the wanted outputs; none where the call is not legal: the server will say why."""
        self.size_bytes = size_bytes(views, self.outputs)
        self._requirements = requirements
        self._chunk_bytes: int | None = None
        """The size of chunks that a refusal led to."""
        self.destination = destination_of(operator, out, self.sent.outputs, self.outputs)
        self.destination.check_apart((each.name, each.data) for each in views if each.data is not None)

    @property
    def request(self) -> bytes:
        """The message to send; raises InvalidFieldError for an attribute that has no form on the wire."""
        return encode_request(self.sent)

    def lendable(self) -> tuple[Mapping[str, memoryview], Mapping[str, TensorType]]:
        inputs = {each.name: each.data for each in self.sent.inputs if each.data is not None}
        return inputs, {each.name: each.type for each in self.outputs}

    @property
    def copies_outputs(self) -> bool:
        return self.destination.is_given

    def request_in(self, shared: Mapping[str, SharedRange], memory: Mapping[str, SharedRange]) -> bytes:
        inputs = tuple(
            replace(each, source=shared[each.name]) if each.name in shared else each for each in self.sent.inputs
        )
        return encode_request(replace(self.sent, inputs=inputs, output_memory=memory))

    def read_from(self, reply: bytes, take_over: TakeOver | None) -> Array:
        try:
            outputs = decode_response(reply)
        except ValueError as error:
            raise unreadable_reply(error) from error
        return self.destination.read(outputs, take_over and (lambda each: take_over(each.name, each)))

    def read(self, reply: bytes) -> Array:
        try:
            outputs = decode_response(reply)
            if self.destination is ONE and len(outputs) == 1:
                # The usual reply, without the steps that several outputs take.
                return array_of_view(outputs[0])
        except ValueError as error:
            raise unreadable_reply(error) from error
        return self.destination.read(outputs)

    def in_chunks(self) -> ChunkedProgram[Array] | None:
        """Returns the call as a program of one step, whose large inputs are the tensors of its table."""
        return self.chunks_for(self.size_bytes)

    def chunks_for(self, size_bytes: int) -> ChunkedProgram[Array] | None:
        """Returns the call in chunks, or None if so many bytes of tensors go in a message."""
        if self._chunk_bytes is None and size_bytes <= self._requirements.tensor_bytes:
            return None
        chunk_bytes = self._requirements.chunk_bytes
        inline_bytes = min(_INLINE_BYTES, chunk_bytes // MAX_INPUTS)
        data = {each.name: each.data for each in self.sent.inputs if each.data is not None}
        data = {name: each for name, each in data.items() if each.nbytes > inline_bytes}
        announced = [Announced(position, each) for position, each in enumerate(data.values())]
        header = partial(encode_step_header, self.sent, tuple(data), chunk_bytes)
        return ChunkedProgram(header, announced, chunk_bytes, [self.destination], _of_one)

    def amend(self, error: AclgradError) -> "Call | None":
        """Returns the call with all values if the server asks for them, and in chunks if a message was too large."""
        if isinstance(error, InputValuesRequiredError):
            self._requirements.require_values(self.operator)
            if not self.withheld:
                return None
            self.add_values()
            return self
        if not self._requirements.learn(error):
            return None
        before, self._chunk_bytes = self._chunk_bytes, self._requirements.chunk_bytes
        return self if before is None or self._chunk_bytes < before else None

    def add_values(self) -> None:
        """Has the values sent that were withheld; raises InvalidFieldError if `out` overlaps them."""
        inputs = tuple(
            input_of_array(each.name, self.withheld[each.name]) if each.name in self.withheld else each
            for each in self.sent.inputs
        )
        self.destination.check_apart((each.name, each.data) for each in inputs if each.data is not None)
        self.sent, self.withheld = replace(self.sent, inputs=inputs), {}
        self.size_bytes = size_bytes(inputs, self.outputs)


def _of_one(taken: list[Taken]) -> Array:
    """Returns the outputs of the only step; raises its error."""
    (outcome,) = taken
    if isinstance(outcome, status_pb2.Status):
        raise error_of_status(outcome)
    if isinstance(outcome, AclgradError):
        raise outcome
    return cast(Array, outcome)


def copies_much(inputs: Inputs) -> bool:
    """Whether to make the call would copy more than an event loop should: arrays that are not as the wire has them."""
    if not isinstance(inputs, Mapping):
        return False
    return any(
        getattr(value, "nbytes", 0) > LARGE_BYTES
        and not (isinstance(value, np.ndarray) and dense_elements(value) is not None)
        for value in inputs.values()
    )


def size_bytes(inputs: Iterable[TensorView], outputs: Iterable[TensorView]) -> int:
    """Returns the larger of what goes each way over the connection."""
    sent = sum(each.data.nbytes for each in inputs if each.data is not None)
    return max(sent, sum(each.type.size_bytes for each in outputs))


def input_tensors(operator: str, inputs: Inputs, tensor_of: Callable[[str, Any], TensorView]) -> tuple[TensorView, ...]:
    """Returns the tensors of the inputs: `tensor_of` makes those that are no tuples of sizes.

    An input that is None is left out. One that came as a shape has the dtype of the first that did not.
    """
    _check_mapping("inputs", inputs, "input names to arrays or shapes")
    optional = _OPTIONAL.get(operator, ())
    tensors: dict[str, TensorView] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, value in inputs.items():
        if value is None and name in optional:
            continue
        if isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value):
            # Keeps its place: its dtype may be that of an array that comes later.
            tensors[name], shapes[name] = _LATER, value
            continue
        tensors[name] = tensor_of(name, value)
    if shapes:
        dtype = next((each.type.dtype for each in tensors.values() if each is not _LATER), None)
        if dtype is None:
            problem = "is a shape, and no other input is an array that tells the dtype"
            raise InvalidFieldError.at(f"inputs[{next(iter(shapes))}]", problem, "give at least one input as an array")
        for name, shape in shapes.items():
            tensors[name] = TensorView(name, TensorType(dtype, shape))
    return tuple(tensors.values())


def array_of_input(name: str, value: TensorLike) -> Array:
    """Returns the array of an input; raises InvalidFieldError for a value that is none."""
    return value if type(value) is np.ndarray else as_array(f"inputs[{name}]", value)


FormKey = tuple[
    tuple[tuple[str, str, tuple[int, ...]], ...],
    tuple[tuple[str, Hashable, AttributeValue], ...],
]
"""Names, dtypes and shapes of inputs, and names, kinds and values of attributes: calls repeat them."""


def form_key(inputs: Iterable[TensorView], attributes: Mapping[str, AttributeValue]) -> FormKey:
    types = tuple((each.name, each.type.dtype.name, each.type.shape) for each in inputs)
    return types, tuple((name, _kind(value), value) for name, value in attributes.items())


def _kind(value: AttributeValue) -> Any:
    """Returns what differs between values that are equal for Python: 1, True and 1.0, and 0.0 and -0.0."""
    if isinstance(value, float):
        return value.hex()
    return tuple(map(type, value)) if isinstance(value, tuple) else type(value)


@lru_cache(4096)
def output_tensors(operator: str, key: FormKey, wanted: tuple[str, ...]) -> tuple[TensorView, ...]:
    """Returns names and types of the wanted outputs, none if the call is not legal or the operator not known."""
    types, attributes = key
    inputs = {name: TensorType(DTYPES[dtype], shape) for name, dtype, shape in types}
    try:
        spec = OPERATORS[operator]
        given = {each.name: each.default for each in spec.attributes} | {name: value for name, _, value in attributes}
        arguments = Arguments(inputs, given)
        found = [(each.name, each.infer(arguments)) for each in spec.outputs if not wanted or each.name in wanted]
        return tuple(TensorView(name, TensorType(type.dtype, tuple(map(index, type.shape)))) for name, type in found)
    except (LookupError, TypeError, ValueError):
        return ()


def destination_of(
    operator: str, out: Outputs | None, wanted: tuple[str, ...], outputs: Sequence[TensorView]
) -> Destination:
    """Returns where the wanted outputs go; raises InvalidFieldError for an `out` that does not fit them."""
    names = OUTPUTS.get(operator, ())
    if out is None:
        return new_arrays(operator, names, wanted)
    destination = Destination(out, names, wanted, operator)
    if outputs:
        destination.check(outputs)
    return destination


def wanted_names(outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the names of the wanted outputs, none for all of them; raises InvalidFieldError for what names none."""
    if outputs is None:
        return ()
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or not outputs:
        problem = f"is {outputs!r}, which names no outputs"
        raise InvalidFieldError.at("outputs", problem, "give a sequence of names, or leave it out for all outputs")
    return tuple(checked_name("outputs", each) for each in outputs)


def plain_attributes(operator: str, attributes: Mapping[str, AttributeLike] | None) -> dict[str, AttributeValue]:
    """Returns the attributes as plain values; raises InvalidFieldError for one that has no form on the wire."""
    if attributes is None:
        return {}
    _check_mapping("attributes", attributes, "attribute names to values")
    specs = _ATTRIBUTES.get(operator, {})
    return {name: plain_attribute(name, value, specs.get(name)) for name, value in attributes.items()}


def _check_mapping(field: str, value: object, of: str) -> None:
    # First the usual: an abstract class takes longer to ask.
    if type(value) is not dict and not isinstance(value, Mapping):
        problem, remedy = f"is a {type(value).__name__}", f"give a mapping from {of}"
        raise InvalidFieldError.at(field, problem, remedy)
