"""The messages of ExecuteOperatorChunked, to bytes and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aclgrad.errors import InvalidFieldError, MalformedRequestError
from aclgrad.sources import InChunks, in_message
from aclgrad.tensors import TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES
from aclgrad.wire.messages import (
    ExtractPayloads,
    OperatorCall,
    call_of_message,
    decode_outputs,
    encode_request,
    length_key,
    response_of,
)
from aclgrad.wire.messages import parse_message as parse
from aclgrad.wire.scan import extract_payloads, payload_index

_HEADER = pb.ExecuteOperatorChunkedRequest.HEADER_FIELD_NUMBER
_CHUNK = pb.ExecuteOperatorChunkedRequest.CHUNK_FIELD_NUMBER
_REQUEST = pb.ChunkedHeader.REQUEST_FIELD_NUMBER
_INPUTS = pb.ExecuteOperatorRequest.INPUTS_FIELD_NUMBER
_DATA_IN_TENSOR = 4
_DATA = pb.TensorChunk.DATA_FIELD_NUMBER

_HEADER_PAYLOADS: Final = (_HEADER, _REQUEST, _INPUTS, _DATA_IN_TENSOR)
_CHUNK_PAYLOADS: Final = (_CHUNK, _DATA)
"""Requests and responses have the same numbers here."""


@dataclass(frozen=True, slots=True)
class Header:
    """A call whose `chunked` inputs follow in that order."""

    call: OperatorCall
    chunked: tuple[str, ...]
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive bytes of one tensor; `tensor` counts the chunked inputs, or the outputs."""

    tensor: int
    offset: int
    data: memoryview


def encode_header(call: OperatorCall, chunked: Sequence[str], chunk_bytes: int) -> bytes:
    """Returns the first message of a call; the tensors named in `chunked` have no data in `call`."""
    request = encode_request(call)
    rest = pb.ChunkedHeader(chunked_inputs=chunked, chunk_size_bytes=chunk_bytes).SerializeToString()
    header = length_key(_REQUEST, len(request)) + request + rest
    return length_key(_HEADER, len(header)) + header


def decode_header(data: bytes, extract: ExtractPayloads = extract_payloads) -> Header:
    """Returns the call that a first message opens.

    Raises MalformedRequestError if the bytes are not well-formed. Raises InvalidFieldError for chunked inputs that are
    not among the inputs, come twice or have content here, and for a chunk size out of bounds.
    """
    rest, payloads = extract(data, _HEADER_PAYLOADS)
    message = parse(pb.ExecuteOperatorChunkedRequest, rest)
    if message.WhichOneof("message") != "header":
        raise MalformedRequestError("the first message of a chunked call has to be its header")
    header = message.header
    chunk_bytes = header.chunk_size_bytes or DEFAULT_CHUNK_BYTES
    if not 0 < chunk_bytes <= MAX_CHUNK_BYTES:
        remedy = f"ask for 1 to {MAX_CHUNK_BYTES}"
        raise InvalidFieldError.at("header.chunk_size_bytes", f"is {chunk_bytes}", remedy)
    call = call_of_message(header.request, list(map(in_message, payloads)))
    chunked = tuple(header.chunked_inputs)
    numbers = {name: number for number, name in enumerate(chunked)}
    inputs = tuple(_announce(tensor, numbers) for tensor in call.inputs)
    names = {each.name for each in inputs}
    # A name that comes twice has one number.
    wrong = [name for number, name in enumerate(chunked) if name not in names or numbers[name] != number]
    if wrong:
        remedy = "name inputs of the call, each once"
        raise InvalidFieldError.at("header.chunked_inputs", f"has {wrong[0]!r}", remedy)
    return Header(replace(call, inputs=inputs), chunked, chunk_bytes)


def _announce(tensor: TensorView, numbers: Mapping[str, int]) -> TensorView:
    if tensor.name not in numbers:
        return tensor
    if tensor.source.has_values:
        problem = "has content in the header and is to come in chunks"
        raise InvalidFieldError.at(f"inputs[{tensor.name}]", problem, "send it in one way")
    # Of a view, the bytes up to its last element come.
    view, shape = tensor.view, tensor.type.shape
    count = view.end(shape) if view is not None and view.fits(shape) else tensor.type.element_count
    return replace(tensor, source=InChunks(numbers[tensor.name], count * tensor.type.dtype.itemsize))


def chunk_prefix(tensor: int, offset: int, size_bytes: int) -> bytes:
    """Returns the bytes before the data of a chunk in its message, in either direction."""
    body = pb.TensorChunk(tensor_index=tensor, offset_bytes=offset).SerializeToString() + length_key(_DATA, size_bytes)
    return length_key(_CHUNK, len(body) + size_bytes) + body


def decode_chunk(data: bytes, extract: ExtractPayloads = extract_payloads) -> Chunk:
    """Returns the chunk in a message; raises MalformedRequestError if the message has no chunk."""
    rest, payloads = extract(data, _CHUNK_PAYLOADS)
    message = parse(pb.ExecuteOperatorChunkedRequest, rest)
    if message.WhichOneof("message") != "chunk":
        raise MalformedRequestError("after the header of a chunked call nothing but chunks may come")
    chunk = message.chunk
    # A chunk without data has no placeholder either.
    held = payloads[payload_index(chunk.data)] if chunk.data else memoryview(b"")
    return Chunk(chunk.tensor_index, chunk.offset_bytes, held)


def check_chunk(chunk: Chunk, name: str, tensor: int, offset: int, size_bytes: int) -> None:
    """Raises InvalidFieldError for a chunk that does not continue a tensor of this size at this offset."""
    field, count = f"inputs[{name}]", len(chunk.data)
    if (chunk.tensor, chunk.offset) != (tensor, offset):
        found = f"has a chunk of tensor {chunk.tensor} at byte {chunk.offset}"
        remedy = "send the chunks by tensor, then by offset, without gaps"
        raise InvalidFieldError.at(field, f"{found}, but tensor {tensor} continues at {offset}", remedy)
    if not count:
        remedy = "send at least one byte in each chunk"
        raise InvalidFieldError.at(field, f"has an empty chunk at byte {offset}", remedy)
    if count > MAX_CHUNK_BYTES:
        problem = f"has a chunk of {count} bytes at byte {offset} and the limit is {MAX_CHUNK_BYTES}"
        raise InvalidFieldError.at(field, problem, "send smaller chunks")
    if count > size_bytes - offset:
        problem = f"has a chunk of {count} bytes at byte {offset} of {size_bytes}"
        raise InvalidFieldError.at(field, problem, "send exactly the elements of the shape, or up to a view's last")


def encode_response_header(*outputs: TensorView) -> bytes:
    """Returns the first message of the answer: the outputs without their elements."""
    response = response_of(*outputs)
    return length_key(_HEADER, len(response)) + response


def decode_response_header(data: bytes) -> tuple[TensorView, ...]:
    """Returns the outputs that follow in chunks; raises MalformedRequestError for any other message."""
    message = parse(pb.ExecuteOperatorChunkedResponse, data)
    if message.WhichOneof("message") != "header":
        raise MalformedRequestError("the first message of a chunked answer has to be its header")
    return decode_outputs(message.header)
