"""What has to hold for any bytes: the codec reads what protobuf reads, or refuses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import DecodeError, Message

from aclgrad.errors import InvalidFieldError, LimitExceededError, MalformedRequestError
from aclgrad.sources import SHAPE_ONLY, Source
from aclgrad.tensors import TensorView, View
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.chunks import Chunk, decode_answer, decode_chunk, decode_header
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES
from aclgrad.wire.messages import OperatorCall, decode_request, decode_response
from aclgrad.wire.programs import SentProgram, StepOutcome, decode_program, decode_results


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
    return [
        (each.name, each.type.dtype.wire, each.type.shape, _content(each.source), _view(each.view)) for each in tensors
    ]


def _content(source: Source) -> object:
    """Returns what tells of the elements, as `_theirs_of` has it."""
    if source.step is not None:
        return source.step, source.output_name
    if source.entry is not None:
        return source.entry
    if source.shared is not None:
        return source.shared.name, source.shared.offset, source.shared.nbytes
    return None if source.data is None else bytes(source.data)


def _view(view: View | None) -> object:
    return view and (view.offset, view.strides)


def _theirs_of(tensors: Any) -> object:
    contents = {
        None: lambda tensor: None,
        "data": lambda tensor: tensor.data,
        "table_index": lambda tensor: tensor.table_index,
        "output_of": lambda tensor: (tensor.output_of.step, tensor.output_of.output),
        "shared_memory": lambda tensor: tuple(
            getattr(tensor.shared_memory, name) for name in ("name", "offset_bytes", "size_bytes")
        ),
    }
    return [
        (
            each.name,
            each.view.data_type if each.HasField("view") else each.data_type,
            tuple(each.shape),
            contents[each.WhichOneof("content")](each),
            (each.view.offset, tuple(each.view.strides)) if each.HasField("view") else None,
        )
        for each in tensors
    ]


def _call_of(call: OperatorCall) -> object:
    memory = {name: (each.name, each.offset, each.nbytes) for name, each in call.output_memory.items()}
    return call.operator, _ours_of(call.inputs), set(call.attributes), memory, call.outputs


def _call_in(message: Any) -> object:
    memory = {name: (each.name, each.offset_bytes, each.size_bytes) for name, each in message.output_memory.items()}
    return message.operator, _theirs_of(message.inputs), set(message.attributes), memory, tuple(message.outputs)


def _program_of(program: SentProgram) -> object:
    # What comes in chunks has no content in the message.
    table = [replace(each, source=SHAPE_ONLY) if each.source.in_chunks else each for each in program.tensors]
    return list(map(_call_of, program.steps())), _ours_of(table), program.returned, program.product


def _program_in(message: Any) -> object:
    returned = tuple((each.step, each.output) for each in message.returned)
    return list(map(_call_in, message.steps)), _theirs_of(message.tensors), returned, message.product


def _outcomes_of(outcomes: Sequence[StepOutcome]) -> object:
    return [_ours_of(each) if isinstance(each, tuple) else each for each in outcomes]


def _outcomes_in(message: Any) -> object:
    return [each.error if each.HasField("error") else _theirs_of(each.outputs) for each in message.results]


def _have_view(tensors: Any) -> bool:
    """Whether one has a view, which inputs alone may have."""
    return any(each.HasField("view") for each in tensors)


def _is_strided(message: Any) -> bool:
    return any(not each.HasField("error") and _have_view(each.outputs) for each in message.results)


def _chunk_of(chunk: Chunk) -> object:
    return chunk.tensor, chunk.offset, bytes(chunk.data)


def _chunk_in(message: Any) -> object:
    return message.chunk.tensor_index, message.chunk.offset_bytes, message.chunk.data


def _steps_too(decode: Callable[[bytes], SentProgram]) -> Callable[[bytes], SentProgram]:
    """Returns a decoder that also refuses what each step is refused for."""

    def decode_all(data: bytes) -> SentProgram:
        program = decode(data)
        assert len(list(program.steps())) == program.step_count
        return program

    return decode_all


KINDS = {
    "request": Kind(pb.ExecuteOperatorRequest, decode_request, _call_of, _call_in),
    "response": Kind(
        pb.ExecuteOperatorResponse,
        decode_response,
        _ours_of,
        lambda message: _theirs_of(message.outputs),
        lambda message: not _have_view(message.outputs),
    ),
    "program": Kind(pb.ExecuteProgramRequest, _steps_too(decode_program), _program_of, _program_in),
    "results": Kind(
        pb.ExecuteProgramResponse, decode_results, _outcomes_of, _outcomes_in, lambda message: not _is_strided(message)
    ),
    "header": Kind(
        pb.ExecuteProgramChunkedRequest,
        _steps_too(decode_header),
        lambda program: (_program_of(program), program.chunk_bytes),
        lambda message: (_program_in(message.header.program), message.header.chunk_size_bytes or DEFAULT_CHUNK_BYTES),
        lambda message: message.WhichOneof("message") == "header",
    ),
    "chunk": Kind(
        pb.ExecuteProgramChunkedRequest,
        decode_chunk,
        _chunk_of,
        _chunk_in,
        lambda message: message.WhichOneof("message") == "chunk",
    ),
    "answer": Kind(
        pb.ExecuteProgramChunkedResponse,
        decode_answer,
        lambda answer: _chunk_of(answer) if isinstance(answer, Chunk) else _outcomes_of(answer),
        lambda message: _chunk_in(message) if message.HasField("chunk") else _outcomes_in(message.results),
        lambda message: message.WhichOneof("message") is not None and not _is_strided(message.results),
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
    except (InvalidFieldError, LimitExceededError) as error:
        assert error.field
        assert message is not None
        return
    assert message is not None
    assert kind.ours(decoded) == kind.theirs(message)
