"""The call of an operator: from a caller's arguments to messages, without input or output."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, cast

import numpy as np
from google.rpc import status_pb2

from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.calls.arguments import (
    Inputs,
    array_of_input,
    destination_of,
    form_key,
    input_tensors,
    output_tensors,
    plain_attributes,
    returned_names,
    wanted_names,
)
from aclgrad._client.calls.arrays import Array, TensorLike
from aclgrad._client.calls.chunked import Announced, ChunkedProgram, Taken
from aclgrad._client.calls.destination import ONE, Outputs
from aclgrad._client.calls.lender import Lender, TakeOver
from aclgrad._client.calls.requirements import LARGE_BYTES, Requirements, unsent
from aclgrad.errors import AclgradError, InputValuesRequiredError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.sources import SharedRange
from aclgrad.tensors import (
    TensorType,
    TensorView,
    array_of_view,
    dense_elements,
    input_of_array,
    type_of_array,
)
from aclgrad.wire.chunks import encode_step_header
from aclgrad.wire.limits import MANY_INPUTS
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request
from aclgrad.wire.values import checked_name

_INLINE_BYTES: Final = 64 * 2**10
"""Inputs up to this size go with the header, unless chunks are smaller."""


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
        """Takes the arguments of `execute`; `outputs` names the wanted ones, by default all.

        An input that is None is omitted. A shape has the dtype of the first input that is an array. Raises
        InvalidFieldError if an array or an attribute has no form on the wire, or `out` does not fit.
        """
        if type(operator) is not str:
            checked_name("operator", operator)
        wanted = returned_names(operator, wanted_names(outputs))
        shapes = unsent(requirements.withheld, operator, wanted)
        self.withheld: dict[str, Array] = {}
        """The caller's arrays whose shapes alone are sent."""

        def tensor_of(name: str, value: TensorLike) -> TensorView:
            array = array_of_input(name, value)
            if name not in shapes:
                return input_of_array(name, array)
            self.withheld[name] = array
            return TensorView(name, type_of_array(name, array))

        views = input_tensors(operator, inputs, tensor_of)
        self.operator = operator
        self.sent = OperatorCall(operator, views, plain_attributes(operator, attributes), outputs=wanted)
        self.outputs = output_tensors(operator, form_key(views, self.sent.attributes), self.sent.outputs)
        """Names and types of the wanted outputs; none if the call is illegal: the server says why."""
        self.size_bytes = size_bytes(views, self.outputs)
        self._requirements = requirements
        self._chunk_bytes: int | None = None
        """The size of chunks after a refusal."""
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
                # The usual reply, faster than the general way.
                return array_of_view(outputs[0])
        except ValueError as error:
            raise unreadable_reply(error) from error
        return self.destination.read(outputs)

    def in_chunks(self) -> ChunkedProgram[Array] | None:
        """Returns the call as a program of one step, whose large inputs are the tensors of its table."""
        return self.chunks_for(self.size_bytes)

    def chunks_for(self, size_bytes: int) -> ChunkedProgram[Array] | None:
        """Returns the call in chunks, or None if its tensors fit a message."""
        if self._chunk_bytes is None and size_bytes <= self._requirements.tensor_bytes:
            return None
        chunk_bytes = self._requirements.chunk_bytes
        inline_bytes = min(_INLINE_BYTES, chunk_bytes // max(len(self.sent.inputs), MANY_INPUTS))
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
        """Adds the withheld values; raises InvalidFieldError if `out` overlaps them."""
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
    """Whether the call copies more than an event loop should: arrays that are not in the wire's layout."""
    if not isinstance(inputs, Mapping):
        return False
    return any(
        getattr(value, "nbytes", 0) > LARGE_BYTES
        and not (isinstance(value, np.ndarray) and dense_elements(value) is not None)
        for value in inputs.values()
    )


def size_bytes(inputs: Iterable[TensorView], outputs: Iterable[TensorView]) -> int:
    """Returns the larger number of bytes of both directions."""
    sent = sum(each.data.nbytes for each in inputs if each.data is not None)
    return max(sent, sum(each.type.size_bytes for each in outputs))
