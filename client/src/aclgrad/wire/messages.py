"""Requests and replies of ExecuteOperator, to bytes and back.

Tensors are written as `name, data_type, shape` by protobuf, then their data behind a hand-written key, then their view,
so that the bytes are those that a generated stub would send.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2

from aclgrad.errors import InvalidFieldError, LimitExceededError, MalformedRequestError, Violation
from aclgrad.sources import SHAPE_ONLY, InMessage, SharedRange, Source, in_message
from aclgrad.tensors import DTYPES, DType, TensorType, TensorView, View, dtype_of_wire
from aclgrad.v1 import operator_service_pb2, tensor_pb2
from aclgrad.wire.limits import MAX_ATTRIBUTES, MAX_BATCH_CALLS, MAX_INPUTS, MAX_LIST_LENGTH, MAX_NAME, MAX_RANK
from aclgrad.wire.scan import extract_payloads, payload_index, varint

AttributeValue = bool | int | float | str | DType | Sequence[int]
"""The value of an attribute in Python; decoding makes a tuple of a list of integers or of bools."""

ExtractPayloads = Callable[[bytes, tuple[int, ...]], tuple[bytes, list[memoryview]]]
"""`aclgrad.wire.scan.extract_payloads`, or a faster equivalent."""

CallResult: TypeAlias = tuple[TensorView, ...] | status_pb2.Status
"""The outputs of one call of a batch, or why it failed."""

_Message = TypeVar("_Message", bound=Message)

_INPUTS = operator_service_pb2.ExecuteOperatorRequest.INPUTS_FIELD_NUMBER
_OUTPUTS = operator_service_pb2.ExecuteOperatorResponse.OUTPUTS_FIELD_NUMBER
_DATA = tensor_pb2.Tensor.DATA_FIELD_NUMBER
_VIEW = tensor_pb2.Tensor.VIEW_FIELD_NUMBER
_CALLS = operator_service_pb2.BatchExecuteOperatorsRequest.CALLS_FIELD_NUMBER
_RESULTS = operator_service_pb2.BatchExecuteOperatorsResponse.RESULTS_FIELD_NUMBER
_LENGTH_DELIMITED = 2
_COPIED_BYTES = 2**16
"""Up to about 100 KB, protobuf copies faster than Python finds what not to copy."""

REQUEST_PAYLOADS = (_INPUTS, _DATA)
"""The path of field numbers to the data of tensors in an ExecuteOperatorRequest."""
BATCH_CALLS = (_CALLS,)
"""The path to the calls in a BatchExecuteOperatorsRequest, each of them an ExecuteOperatorRequest."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call as it was sent. Only its encoding has been checked."""

    operator: str
    inputs: tuple[TensorView, ...]
    attributes: Mapping[str, AttributeValue]
    output_memory: Mapping[str, SharedRange] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """The names of the wanted outputs; all if there are none."""


def encode_request(call: OperatorCall) -> bytes:
    """Returns the call as an ExecuteOperatorRequest; raises InvalidFieldError for what the wire cannot hold."""
    outputs = [checked_name("outputs", each) for each in call.outputs]
    message = operator_service_pb2.ExecuteOperatorRequest(
        operator=checked_name("operator", call.operator), outputs=outputs
    )
    for name, value in call.attributes.items():
        message.attributes[checked_name("attributes", name)].CopyFrom(attribute_message(name, value))
    for name, range in call.output_memory.items():
        message.output_memory[name].CopyFrom(range.message())
    pieces: list[bytes | memoryview] = [message.SerializeToString()]
    for tensor in call.inputs:
        pieces += _tensor_field(_INPUTS, tensor)
    return b"".join(pieces)


def decode_request(data: bytes | memoryview) -> OperatorCall:
    """Returns the call of an ExecuteOperatorRequest, its tensors as views of `data`.

    Raises MalformedRequestError if the bytes are not well-formed, and InvalidFieldError for a tensor of no known type.
    """
    rest, payloads = extract_payloads(data, REQUEST_PAYLOADS)
    return parse_request(rest, list(map(in_message, payloads)))


def parse_request(rest: bytes, payloads: Sequence[InMessage]) -> OperatorCall:
    """Returns the call of a request whose payloads were extracted along REQUEST_PAYLOADS; see `decode_request`."""
    return call_of_message(parse_message(operator_service_pb2.ExecuteOperatorRequest, rest), payloads)


def call_of_message(
    message: operator_service_pb2.ExecuteOperatorRequest, payloads: Sequence[InMessage]
) -> OperatorCall:
    """Returns the call of a message with placeholders in place of its payloads; see `decode_request`."""
    _check_count("inputs", len(message.inputs), MAX_INPUTS)
    _check_count("attributes", len(message.attributes), MAX_ATTRIBUTES)
    _check_count("output_memory", len(message.output_memory), MAX_INPUTS)
    _check_count("outputs", len(message.outputs), MAX_INPUTS)
    inputs = tuple(_tensor_view(tensor, payloads) for tensor in message.inputs)
    attributes = {name: attribute_value(name, value) for name, value in message.attributes.items()}
    output_memory = {name: _shared_range(range) for name, range in message.output_memory.items()}
    return OperatorCall(message.operator, inputs, attributes, output_memory, tuple(message.outputs))


def _check_count(field: str, count: int, limit: int) -> None:
    if count > limit:
        raise InvalidFieldError.at(field, f"has {count} entries", f"send at most {limit}")


def response_prefix(name: str, type: TensorType) -> bytes:
    """Returns the bytes before the data of one output in an ExecuteOperatorResponse."""
    return b"".join(_tensor_field(_OUTPUTS, TensorView(name, type), type.size_bytes))


def decode_response(data: bytes) -> tuple[TensorView, ...]:
    """Returns the outputs of an ExecuteOperatorResponse as views; errors are those of `decode_request`."""
    if len(data) <= _COPIED_BYTES:
        message = parse_message(operator_service_pb2.ExecuteOperatorResponse, data)
        return _outputs(message.outputs, None)
    rest, payloads = extract_payloads(data, (_OUTPUTS, _DATA))
    message = parse_message(operator_service_pb2.ExecuteOperatorResponse, rest)
    return _outputs(message.outputs, list(map(in_message, payloads)))


def response_of(*outputs: TensorView) -> bytes:
    """Returns an ExecuteOperatorResponse of these outputs, which may be without data."""
    return b"".join(piece for output in outputs for piece in _tensor_field(_OUTPUTS, output))


def decode_outputs(message: operator_service_pb2.ExecuteOperatorResponse) -> tuple[TensorView, ...]:
    """Returns the outputs, without data, of a response that carries none."""
    return _outputs(message.outputs, ())


def encode_batch(requests: Sequence[bytes]) -> bytes:
    """Returns serialized ExecuteOperatorRequests as one BatchExecuteOperatorsRequest."""
    return b"".join(piece for each in requests for piece in (length_key(_CALLS, len(each)), each))


def split_batch(request: bytes, extract: ExtractPayloads = extract_payloads) -> Sequence[memoryview]:
    """Returns the requests in a BatchExecuteOperatorsRequest; raises a RequestError if the bytes are not one."""
    try:
        requests = extract(request, BATCH_CALLS)[1]
    except LimitExceededError:
        # Everything except the payloads is keys of the calls.
        remedy = f"send at most {MAX_BATCH_CALLS} calls in one batch, and no unknown fields"
        raise LimitExceededError.at("calls", "are too many", remedy) from None
    if len(requests) > MAX_BATCH_CALLS:
        problem = f"are {len(requests)} and the limit is {MAX_BATCH_CALLS}"
        raise LimitExceededError.at("calls", problem, "send them in several batches")
    return requests


def result_prefix(prefix: bytes = b"", payload_bytes: int = 0) -> bytes:
    """Returns the bytes before the payload of one result in a BatchExecuteOperatorsResponse.

    An OperatorResult with outputs has the bytes of an ExecuteOperatorResponse with these outputs.
    """
    return length_key(_RESULTS, len(prefix) + payload_bytes) + prefix


def failed_result(status: status_pb2.Status) -> bytes:
    """Returns the result of a failed call for a BatchExecuteOperatorsResponse."""
    return result_prefix(operator_service_pb2.OperatorResult(error=status).SerializeToString())


def decode_batch(data: bytes) -> list[CallResult]:
    """Returns the outputs of each call of a batch as views of `data`, or its status; errors as in `decode_request`."""
    rest, payloads = extract_payloads(data, (_RESULTS, _OUTPUTS, _DATA))
    message = parse_message(operator_service_pb2.BatchExecuteOperatorsResponse, rest)
    sources = list(map(in_message, payloads))
    return [
        result.error if result.HasField("error") else _outputs(result.outputs, sources) for result in message.results
    ]


def parse_message(kind: type[_Message], data: bytes) -> _Message:
    """Returns the message of these bytes; raises MalformedRequestError if they are not well-formed."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise MalformedRequestError(f"the bytes are not a valid {kind.DESCRIPTOR.full_name}") from error


def checked_name(field: str, value: str) -> str:
    """Returns the name if it is one that the wire can hold."""
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InvalidFieldError.at(field, f"has the name {value!r}", "give text that UTF-8 holds") from error
    return value


@lru_cache(4096)
def length_key(number: int, size_bytes: int) -> bytes:
    """Returns the tag and length of a length-delimited field. Calls repeat their sizes."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(size_bytes)


def _tensor_field(number: int, tensor: TensorView, data_bytes: int | None = None) -> Iterator[bytes | memoryview]:
    """Yields the pieces of a Tensor field; `data_bytes` announces data that the caller writes behind them."""
    name = checked_name("inputs", tensor.name)
    try:
        # A view has the data type: a server that knows no views is to refuse the tensor.
        data_type = None if tensor.view else tensor.type.dtype.wire
        head = tensor_pb2.Tensor(name=name, data_type=data_type, shape=tensor.type.shape)
        if tensor.data is None:
            tensor.source.write(head)
    except (TypeError, ValueError) as error:
        problem = f"is {tensor.type.shape}, which is not a shape"
        remedy = "give a sequence of 64-bit integers"
        raise InvalidFieldError.at(f"inputs[{tensor.name}].shape", problem, remedy) from error
    body = head.SerializeToString()
    data = tensor.data
    if data is not None:
        data_bytes = data.nbytes
    if data_bytes is not None:
        body += length_key(_DATA, data_bytes)
    view = b"" if tensor.view is None else _view_field(tensor.view, tensor.type.dtype)
    yield length_key(number, len(body) + (data_bytes or 0) + len(view))
    yield body
    if data is not None:
        yield data
    if view:
        yield view


def _view_field(view: View, dtype: DType) -> bytes:
    body = tensor_pb2.View(offset=view.offset, strides=view.strides, data_type=dtype.wire).SerializeToString()
    return length_key(_VIEW, len(body)) + body


def _tensor_view(message: tensor_pb2.Tensor, payloads: Sequence[InMessage] | None) -> TensorView:
    """Returns the tensor of a message whose data stand among the payloads, or in the message if there are none."""
    field = f"inputs[{message.name[:MAX_NAME]}]"
    _check_count(f"{field}.shape", len(message.shape), MAX_RANK)
    number, view = message.data_type, None
    if message.HasField("view"):
        if number:
            problem = f"is {number} beside that of the view"
            raise InvalidFieldError.at(f"{field}.data_type", problem, "set view.data_type alone")
        _check_count(f"{field}.view.strides", len(message.view.strides), MAX_RANK)
        number, view = message.view.data_type, View(message.view.offset, tuple(message.view.strides))
    dtype = dtype_of_wire(number)
    if dtype is None:
        of = "data_type" if view is None else "view.data_type"
        problem = f"is {number}, which is no data type"
        raise InvalidFieldError.at(f"{field}.{of}", problem, f"send one of {', '.join(DTYPES)}")
    source: Source = SHAPE_ONLY
    if message.HasField("data"):
        data = message.data
        source = InMessage(len(data), 0, memoryview(data)) if payloads is None else payloads[payload_index(data)]
    elif message.HasField("shared_memory"):
        source = _shared_range(message.shared_memory)
    return TensorView(message.name, TensorType(dtype, tuple(message.shape)), source, view)


def _outputs(messages: Iterable[tensor_pb2.Tensor], payloads: Sequence[InMessage] | None) -> tuple[TensorView, ...]:
    """Returns the tensors of a reply; raises MalformedRequestError for one with a view, which inputs alone may have."""
    outputs = tuple(_tensor_view(each, payloads) for each in messages)
    if any(each.view is not None for each in outputs):
        raise MalformedRequestError("an output has a view")
    return outputs


def _shared_range(message: tensor_pb2.SharedMemory) -> SharedRange:
    return SharedRange(message.name, message.offset_bytes, message.size_bytes)


def attribute_message(name: str, value: AttributeValue) -> tensor_pb2.Attribute:
    """Returns the message of a plain value; raises InvalidFieldError for one that the wire cannot hold."""
    try:
        if isinstance(value, bool):
            return tensor_pb2.Attribute(bool_value=value)
        if isinstance(value, int):
            return tensor_pb2.Attribute(int_value=value)
        if isinstance(value, float):
            return tensor_pb2.Attribute(double_value=value)
        if isinstance(value, str):
            return tensor_pb2.Attribute(text_value=value)
        if isinstance(value, DType):
            return tensor_pb2.Attribute(data_type_value=value.wire)
        if value and all(type(each) is bool for each in value):
            return tensor_pb2.Attribute(bools_value=tensor_pb2.Bools(values=map(bool, value)))
        return tensor_pb2.Attribute(ints_value=tensor_pb2.Ints(values=map(operator.index, value)))
    except (TypeError, ValueError) as error:
        raise InvalidFieldError.of(unsendable_attribute(name, value)) from error


def unsendable_attribute(name: str, value: object) -> Violation:
    """Returns the error for a value that the wire cannot hold."""
    # Python writes no decimals of very large numbers.
    shown = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else repr(value)
    problem = f"is {shown}, which the wire cannot hold"
    remedy = "give a bool, a 64-bit integer, a float, a text, a data type or a sequence of bools or of 64-bit integers"
    return Violation(f"attributes[{name}]", problem, remedy)


def attribute_value(name: str, message: tensor_pb2.Attribute) -> AttributeValue:
    """Returns the value of a message; raises InvalidFieldError if it has no value, or a list that is too long."""
    match message.WhichOneof("value"):
        case "bool_value":
            return message.bool_value
        case "int_value":
            return message.int_value
        case "double_value":
            return message.double_value
        case "ints_value":
            _check_count(f"attributes[{name[:MAX_NAME]}]", len(message.ints_value.values), MAX_LIST_LENGTH)
            return tuple(message.ints_value.values)
        case "text_value":
            return message.text_value
        case "bools_value":
            _check_count(f"attributes[{name[:MAX_NAME]}]", len(message.bools_value.values), MAX_LIST_LENGTH)
            return tuple(message.bools_value.values)
        case "data_type_value":
            if (dtype := dtype_of_wire(message.data_type_value)) is not None:
                return dtype
            problem = f"is {message.data_type_value}, which is no data type"
            raise InvalidFieldError.at(f"attributes[{name}]", problem, f"send one of {', '.join(DTYPES)}")
    raise InvalidFieldError.at(f"attributes[{name}]", "holds no value", "set one of its kinds")
