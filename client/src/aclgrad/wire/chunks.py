"""The messages of ExecuteProgramChunked, to bytes and back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from aclgrad.errors import InvalidFieldError, MalformedRequestError
from aclgrad.sources import InChunks, InMessage, TableEntry, in_message
from aclgrad.tensors import TensorType, TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES
from aclgrad.wire.messages import ExtractPayloads, OperatorCall, encode_request, response_of
from aclgrad.wire.messages import parse_message as parse
from aclgrad.wire.programs import (
    PROGRAM_PAYLOADS,
    SentProgram,
    StepOutcome,
    encode_program,
    failed_result,
    outcomes_of,
    program_of_message,
    result_prefix,
)
from aclgrad.wire.scan import extract_payloads, payload_index
from aclgrad.wire.values import length_key, referred_bytes

_HEADER: Final = pb.ExecuteProgramChunkedRequest.HEADER_FIELD_NUMBER
_CHUNK: Final = pb.ExecuteProgramChunkedRequest.CHUNK_FIELD_NUMBER
_RESULTS: Final = pb.ExecuteProgramChunkedResponse.RESULTS_FIELD_NUMBER
_PROGRAM: Final = pb.ProgramHeader.PROGRAM_FIELD_NUMBER
_DATA: Final = pb.TensorChunk.DATA_FIELD_NUMBER

HEADER_PAYLOADS: Final = tuple((_HEADER, _PROGRAM, *path) for path in PROGRAM_PAYLOADS)
"""The paths of field numbers to the data of tensors in a first message."""
_CHUNK_PAYLOADS: Final = (_CHUNK, _DATA)
"""Requests and responses have the same field numbers here."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive bytes of one tensor; `tensor` counts those of the program's table, or the outputs of results."""

    tensor: int
    offset: int
    data: memoryview


def encode_header(program: bytes, chunk_bytes: int) -> bytes:
    """Returns the first message of a call, with a serialized ExecuteProgramRequest."""
    before, behind = header_around(len(program), chunk_bytes)
    return b"".join((before, program, behind))


def header_around(program_bytes: int, chunk_bytes: int) -> tuple[bytes, bytes]:
    """Returns the bytes before and after an ExecuteProgramRequest of this size in the first message."""
    rest = pb.ProgramHeader(chunk_size_bytes=chunk_bytes).SerializeToString()
    key = length_key(_PROGRAM, program_bytes)
    return length_key(_HEADER, len(key) + program_bytes + len(rest)) + key, rest


def encode_step_header(call: OperatorCall, names: Sequence[str], chunk_bytes: int) -> bytes:
    """Returns the header of a program of one step, whose inputs of these names follow in chunks, in this order.

    The tensor under an input with a view has one dimension, and the elements up to the view's last.
    """
    given = {each.name: each for each in call.inputs}
    sources = {
        name: TableEntry(index, referred_bytes(given[name].type, given[name].view)) for index, name in enumerate(names)
    }
    inputs = tuple(replace(each, source=sources.get(each.name, each.source)) for each in call.inputs)
    step = encode_request(replace(call, inputs=inputs))
    return encode_header(encode_program([step], [_entry(given[name]) for name in names]), chunk_bytes)


def _entry(tensor: TensorView) -> TensorView:
    type = tensor.type
    if tensor.view is not None:
        type = TensorType(type.dtype, (referred_bytes(type, tensor.view) // type.dtype.itemsize,))
    return TensorView("", type)


def decode_header(data: bytes) -> SentProgram:
    """Returns the program that a first message opens, its tensors as views of `data`; raises as `parse_header`."""
    rest, payloads = extract_payloads(data, *HEADER_PAYLOADS)
    return parse_header(rest, list(map(in_message, payloads)))


def parse_header(rest: bytes, payloads: Sequence[InMessage]) -> SentProgram:
    """Returns the program that a first message opens, whose payloads were extracted along HEADER_PAYLOADS.

    The tensors of its table whose sources are InChunks follow, in their order. Raises MalformedRequestError if the
    bytes are not well-formed, InvalidFieldError for a chunk size out of bounds, and what `parse_program` raises.
    """
    message = parse(pb.ExecuteProgramChunkedRequest, rest)
    if message.WhichOneof("message") != "header":
        raise MalformedRequestError("the first message of a program in chunks has to be its header")
    header = message.header
    chunk_bytes = header.chunk_size_bytes or DEFAULT_CHUNK_BYTES
    if not 0 < chunk_bytes <= MAX_CHUNK_BYTES:
        remedy = f"ask for 1 to {MAX_CHUNK_BYTES}"
        raise InvalidFieldError.at("header.chunk_size_bytes", f"is {chunk_bytes}", remedy)
    program = program_of_message(header.program, payloads)
    tensors = tuple(_announced(tensor, index) for index, tensor in enumerate(program.tensors))
    return replace(program, tensors=tensors, chunk_bytes=chunk_bytes)


def _announced(tensor: TensorView, index: int) -> TensorView:
    """Returns the tensor of a table; its elements come in chunks if they are not in the message."""
    if tensor.source.has_values:
        return tensor
    return replace(tensor, source=InChunks(index, tensor.type.size_bytes))


def chunk_prefix(tensor: int, offset: int, size_bytes: int) -> bytes:
    """Returns the bytes before the data of a chunk in its message, in either direction."""
    body = pb.TensorChunk(tensor_index=tensor, offset_bytes=offset).SerializeToString() + length_key(_DATA, size_bytes)
    return length_key(_CHUNK, len(body) + size_bytes) + body


def decode_chunk(data: bytes, extract: ExtractPayloads = extract_payloads) -> Chunk:
    """Returns the chunk in a message; raises MalformedRequestError if the message has no chunk."""
    rest, payloads = extract(data, _CHUNK_PAYLOADS)
    message = parse(pb.ExecuteProgramChunkedRequest, rest)
    if message.WhichOneof("message") != "chunk":
        raise MalformedRequestError("after the header of a program in chunks nothing but chunks may come")
    return _chunk_of(message.chunk, payloads)


def _chunk_of(chunk: pb.TensorChunk, payloads: Sequence[memoryview]) -> Chunk:
    # A chunk without data has no placeholder.
    held = payloads[payload_index(chunk.data)] if chunk.data else memoryview(b"")
    return Chunk(chunk.tensor_index, chunk.offset_bytes, held)


def check_chunk(chunk: Chunk, tensor: int, offset: int, size_bytes: int) -> None:
    """Raises InvalidFieldError unless the chunk continues a tensor of this size at this offset."""
    field, count = f"tensors[{tensor}]", len(chunk.data)
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


def encode_results(results: Sequence[StepOutcome]) -> bytes:
    """Returns the message with the results of the next steps, without the elements of their outputs."""
    pieces = [
        result_prefix(0, response_of(*each)) if isinstance(each, tuple) else failed_result(each) for each in results
    ]
    body = b"".join(pieces)
    return length_key(_RESULTS, len(body)) + body


def decode_answer(data: bytes) -> Chunk | list[StepOutcome]:
    """Returns the results or the chunk in a message; raises MalformedRequestError if it has neither."""
    rest, payloads = extract_payloads(data, _CHUNK_PAYLOADS)
    message = parse(pb.ExecuteProgramChunkedResponse, rest)
    if message.WhichOneof("message") == "chunk":
        return _chunk_of(message.chunk, payloads)
    if message.WhichOneof("message") != "results":
        raise MalformedRequestError("a message of the answer has neither results nor a chunk")
    return outcomes_of(message.results, None)
