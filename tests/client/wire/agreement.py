"""What has to hold for any bytes: the codec reads what protobuf reads, or refuses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message

from aclgrad.errors import InvalidFieldError, MalformedRequestError
from aclgrad.tensors import TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import decode_chunk, decode_header
from aclgrad.wire.messages import decode_batch, decode_request, decode_response


@dataclass(frozen=True)
class Kind:
    """A kind of message: protobuf's class, our decoder, and what both have to find."""

    message: type[Message]
    decode: Callable[[bytes], Any]
    ours: Callable[[Any], object]
    theirs: Callable[[Any], object]
    is_meant: Callable[[Any], bool] = lambda message: True
    """Whether a message that protobuf reads is one that we read: a chunk where a chunk has to be, for example."""


def _ours_of(tensors: Sequence[TensorView]) -> object:
    return [(each.name, each.type.dtype.wire, each.type.shape, _bytes(each.data)) for each in tensors]


def _bytes(data: Any) -> bytes | None:
    return bytes(data) if isinstance(data, memoryview) else None


def _theirs_of(tensors: Any) -> object:
    return [
        (each.name, each.data_type, tuple(each.shape), each.data if each.HasField("data") else None) for each in tensors
    ]


KINDS = {
    "request": Kind(
        pb.ExecuteOperatorRequest,
        decode_request,
        lambda call: (call.operator, _ours_of(call.inputs), set(call.attributes)),
        lambda message: (message.operator, _theirs_of(message.inputs), set(message.attributes)),
    ),
    "response": Kind(
        pb.ExecuteOperatorResponse, decode_response, _ours_of, lambda message: _theirs_of(message.outputs)
    ),
    "batch_response": Kind(
        pb.BatchExecuteOperatorsResponse,
        decode_batch,
        lambda results: [_ours_of(each) if isinstance(each, tuple) else each for each in results],
        lambda message: [
            each.error if each.HasField("error") else _theirs_of(each.outputs) for each in message.results
        ],
    ),
    "header": Kind(
        pb.ExecuteOperatorChunkedRequest,
        decode_header,
        lambda call: (call.call.operator, _ours_of(call.call.inputs), call.chunked),
        lambda message: (
            message.header.request.operator,
            _theirs_of(message.header.request.inputs),
            tuple(message.header.chunked_inputs),
        ),
        lambda message: message.WhichOneof("message") == "header",
    ),
    "chunk": Kind(
        pb.ExecuteOperatorChunkedRequest,
        decode_chunk,
        lambda chunk: (chunk.tensor, chunk.offset, bytes(chunk.data)),
        lambda message: (message.chunk.tensor_index, message.chunk.offset_bytes, message.chunk.data),
        lambda message: message.WhichOneof("message") == "chunk",
    ),
}


def assert_agrees_with_protobuf(kind: Kind, data: bytes) -> None:
    """Both read the same, or both refuse; we also refuse, by name, fields that mean nothing."""
    try:
        message = kind.message.FromString(data)
    except DecodeError:
        message = None
    try:
        decoded = kind.decode(data)
    except MalformedRequestError:
        assert message is None or not kind.is_meant(message)
        return
    except InvalidFieldError as error:
        assert error.field
        assert message is not None
        return
    assert message is not None
    assert kind.ours(decoded) == kind.theirs(message)
