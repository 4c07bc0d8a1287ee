"""Requests and replies of ExecuteOperator, to bytes and back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from aclgrad.errors import MalformedRequestError
from aclgrad.sources import InMessage, SharedRange, in_message
from aclgrad.tensors import TensorType, TensorView
from aclgrad.v1 import operator_service_pb2, tensor_pb2
from aclgrad.wire.limits import MAX_ATTRIBUTES, MAX_INPUTS, MAX_OUTPUTS
from aclgrad.wire.scan import extract_payloads
from aclgrad.wire.values import (
    DATA,
    AttributeValue,
    attribute_message,
    attribute_value,
    check_count,
    checked_name,
    shared_range,
    tensor_field,
    tensor_view,
)

ExtractPayloads = Callable[..., tuple[bytes, list[memoryview]]]
"""`aclgrad.wire.scan.extract_payloads`, or a faster equivalent."""

_Message = TypeVar("_Message", bound=Message)

INPUTS: Final = operator_service_pb2.ExecuteOperatorRequest.INPUTS_FIELD_NUMBER
OUTPUTS: Final = operator_service_pb2.ExecuteOperatorResponse.OUTPUTS_FIELD_NUMBER
"""A StepResult has the same field number."""
COPIED_BYTES: Final = 2**16
"""Up to about 100 KB, protobuf's copy is faster than finding payloads in Python."""

REQUEST_PAYLOADS: Final = (INPUTS, DATA)
"""The path of field numbers to the data of tensors in an ExecuteOperatorRequest."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One received call. Only its encoding has been checked."""

    operator: str
    inputs: tuple[TensorView, ...]
    attributes: Mapping[str, AttributeValue]
    output_memory: Mapping[str, SharedRange] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """The names of the wanted outputs; all if there are none."""


def encode_request(call: OperatorCall) -> bytes:
    """Returns the call as an ExecuteOperatorRequest; raises InvalidFieldError if the wire cannot hold it."""
    head = request_head(call.operator, call.attributes)
    return b"".join(request_pieces(head, call.inputs, call.outputs, call.output_memory))


def request_head(operator: str, attributes: Mapping[str, AttributeValue]) -> bytes:
    """Returns a request without its tensors; raises InvalidFieldError if the wire cannot hold it."""
    message = operator_service_pb2.ExecuteOperatorRequest(operator=checked_name("operator", operator))
    for name, value in attributes.items():
        message.attributes[checked_name("attributes", name)].CopyFrom(attribute_message(name, value))
    return message.SerializeToString()


def request_pieces(
    head: bytes,
    inputs: Iterable[TensorView],
    outputs: Iterable[str] = (),
    output_memory: Mapping[str, SharedRange] = MappingProxyType({}),
) -> list[bytes | memoryview]:
    """Returns the pieces of a request with this head; raises InvalidFieldError if the wire cannot hold it."""
    pieces: list[bytes | memoryview] = [head]
    if outputs or output_memory:
        names = [checked_name("outputs", each) for each in outputs]
        memory = {name: range.message() for name, range in output_memory.items()}
        rest = operator_service_pb2.ExecuteOperatorRequest(outputs=names, output_memory=memory)
        pieces.append(rest.SerializeToString())
    for tensor in inputs:
        pieces += tensor_field(INPUTS, tensor)
    return pieces


def decode_request(data: bytes | memoryview) -> OperatorCall:
    """Returns the call of an ExecuteOperatorRequest, its tensors as views of `data`.

    Raises MalformedRequestError if the bytes are not well-formed, and InvalidFieldError for a tensor of unknown type.
    """
    rest, payloads = extract_payloads(data, REQUEST_PAYLOADS)
    return parse_request(rest, list(map(in_message, payloads)))


def parse_request(rest: bytes, payloads: Sequence[InMessage]) -> OperatorCall:
    """Returns the call of a request whose payloads were extracted along REQUEST_PAYLOADS; see `decode_request`."""
    return call_of_message(parse_message(operator_service_pb2.ExecuteOperatorRequest, rest), payloads)


def call_of_message(
    message: operator_service_pb2.ExecuteOperatorRequest, payloads: Sequence[InMessage]
) -> OperatorCall:
    """Returns the call of a message with placeholders instead of payloads; see `decode_request`."""
    check_count("inputs", len(message.inputs), MAX_INPUTS)
    check_count("attributes", len(message.attributes), MAX_ATTRIBUTES)
    check_count("output_memory", len(message.output_memory), MAX_OUTPUTS)
    check_count("outputs", len(message.outputs), MAX_OUTPUTS)
    inputs = tuple(tensor_view(tensor, payloads) for tensor in message.inputs)
    attributes = {name: attribute_value(name, value) for name, value in message.attributes.items()}
    output_memory = {name: shared_range(range) for name, range in message.output_memory.items()}
    return OperatorCall(message.operator, inputs, attributes, output_memory, tuple(message.outputs))


def response_prefix(name: str, type: TensorType) -> bytes:
    """Returns the bytes before the data of one output in an ExecuteOperatorResponse."""
    return b"".join(tensor_field(OUTPUTS, TensorView(name, type), type.size_bytes))


def decode_response(data: bytes) -> tuple[TensorView, ...]:
    """Returns the outputs of an ExecuteOperatorResponse as views; errors are those of `decode_request`."""
    if len(data) <= COPIED_BYTES:
        message = parse_message(operator_service_pb2.ExecuteOperatorResponse, data)
        return output_views(message.outputs, None)
    rest, payloads = extract_payloads(data, (OUTPUTS, DATA))
    message = parse_message(operator_service_pb2.ExecuteOperatorResponse, rest)
    return output_views(message.outputs, list(map(in_message, payloads)))


def response_of(*outputs: TensorView) -> bytes:
    """Returns an ExecuteOperatorResponse of these outputs, which may be without data."""
    return b"".join(piece for output in outputs for piece in tensor_field(OUTPUTS, output))


def parse_message(kind: type[_Message], data: bytes) -> _Message:
    """Returns the message of these bytes; raises MalformedRequestError if they are not well-formed."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise MalformedRequestError(f"the bytes are not a valid {kind.DESCRIPTOR.full_name}") from error


def output_views(messages: Iterable[tensor_pb2.Tensor], payloads: Sequence[InMessage] | None) -> tuple[TensorView, ...]:
    """Returns the tensors of a reply; raises MalformedRequestError for one with a view, which only inputs may have."""
    outputs = tuple([tensor_view(each, payloads) for each in messages])
    if any(each.view is not None for each in outputs):
        raise MalformedRequestError("an output has a view")
    return outputs
