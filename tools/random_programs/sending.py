"""Programs as the messages of a raw client, and the answers as arrays or statuses."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import grpc
import numpy as np
from google.rpc import status_pb2

from aclgrad.errors import AclgradError, from_status
from aclgrad.judge.programs.program import Array, Given, Program, Result, Returned, Step
from aclgrad.sources import SHAPE_ONLY, OutputOf, SharedRange, Source, TableEntry, in_message
from aclgrad.tensors import DType, TensorType, TensorView, dtype_of_numpy
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer, encode_header
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import StepOutcome, decode_results, encode_program
from aclgrad.wire.service import SERVICE

TIMEOUT_S = 120


@dataclass(slots=True)
class SharedBuffer:
    """A shared-memory object, of which tensors get ranges one after the other."""

    name: str
    buffer: memoryview
    used: int = 0

    def take(self, size_bytes: int) -> SharedRange:
        start, self.used = self.used, self.used + -(-size_bytes // 64) * 64
        assert self.used <= len(self.buffer)
        return SharedRange(self.name, start, size_bytes)

    def put(self, array: Array) -> SharedRange:
        range = self.take(array.nbytes)
        self.buffer[range.offset : range.offset + range.nbytes] = array.tobytes()
        return range

    def read(self, range: SharedRange, type: TensorType) -> Array:
        data = bytes(self.buffer[range.offset : range.offset + range.nbytes])
        return np.frombuffer(data, type.dtype.numpy).reshape(type.shape)


def dtype_of(array: Array) -> DType:
    dtype = dtype_of_numpy(array.dtype)
    assert dtype is not None
    return dtype


def step_bytes(step: Step, shared: SharedBuffer | None = None, to_shared: bool = False) -> bytes:
    """Returns the step as an ExecuteOperatorRequest, its arrays, and outputs, in shared memory if there is one."""
    inputs = tuple(TensorView(each.name, each.type, _source(each, shared), each.view) for each in step.inputs)
    memory = {}
    if shared is not None and to_shared:
        memory = {name: shared.take(type.size_bytes) for name, type in step.types.items() if type.size_bytes}
    return encode_request(OperatorCall(step.operator, inputs, step.attributes, memory, step.outputs))


def _source(given: Given, shared: SharedBuffer | None) -> Source:
    if given.step is not None:
        return OutputOf(given.step, given.output, 0)
    if given.entry is not None:
        return TableEntry(given.entry, 0)
    assert given.array is not None
    if shared is not None and given.array.nbytes:
        return shared.put(given.array)
    return in_message(memoryview(np.ascontiguousarray(given.array).reshape(-1).view(np.uint8)))


def table_entry(array: Array, shared: SharedBuffer | None = None, is_announced: bool = False) -> TensorView:
    """Returns a tensor of a table; one that is announced comes in chunks."""
    type = TensorType(dtype_of(array), array.shape)
    if is_announced:
        return TensorView("", type, SHAPE_ONLY)
    if shared is not None and array.nbytes:
        return TensorView("", type, shared.put(array))
    return TensorView("", type, in_message(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))))


def program_bytes(
    program: Program,
    returned: Sequence[Returned] = (),
    shared: SharedBuffer | None = None,
    to_shared: bool = False,
    announced: Sequence[int] = (),
    product: str = "",
) -> bytes:
    """Returns the program as an ExecuteProgramRequest."""
    steps = [step_bytes(each, shared, to_shared) for each in program.steps]
    tensors = [table_entry(each, shared, index in announced) for index, each in enumerate(program.table)]
    return encode_program(steps, tensors, [OutputOf(step, output, 0) for step, output in returned], product)


def execute(channel: grpc.Channel, request: bytes, shared: SharedBuffer | None = None) -> list[Result]:
    """Sends a program in one message and returns its results."""
    reply = channel.unary_unary(SERVICE + "ExecuteProgram")(request, timeout=TIMEOUT_S)
    return [_result(each, shared) for each in decode_results(reply)]


def messages_of(
    program: Program, returned: Sequence[Returned] = (), inline: Sequence[int] = (), chunk_bytes: int = 2**20
) -> Iterator[bytes]:
    """Yields what a client sends if the tensors of the table go in chunks, but for those that are `inline`."""
    announced = [index for index, each in enumerate(program.table) if index not in inline and each.size]
    yield encode_header(program_bytes(program, returned, announced=announced), chunk_bytes)
    for index in announced:
        data = program.table[index].tobytes()
        for offset in range(0, len(data), chunk_bytes):
            piece = data[offset : offset + chunk_bytes]
            yield chunk_prefix(index, offset, len(piece)) + piece


def execute_chunked(channel: grpc.Channel, messages: Iterable[bytes]) -> list[Result]:
    """Sends a program in chunks and returns its results."""
    answers = channel.stream_stream(SERVICE + "ExecuteProgramChunked")(iter(messages), timeout=TIMEOUT_S)
    return read_answers(map(decode_answer, answers))


def read_answers(answers: Iterable[Chunk | list[StepOutcome]]) -> list[Result]:
    """Returns the results of an answer in chunks, which has to be complete and in order."""
    outcomes: list[StepOutcome] = []
    data: list[bytearray] = []
    begin = 0
    for answer in answers:
        if isinstance(answer, Chunk):
            assert answer.offset == len(data[begin + answer.tensor])
            data[begin + answer.tensor] += answer.data
            continue
        begin = len(data)
        outcomes += answer
        data += (bytearray() for outcome in answer if isinstance(outcome, tuple) for _ in outcome)
    left = iter(data)
    results: list[Result] = []
    for outcome in outcomes:
        if isinstance(outcome, tuple):
            results.append({each.name: _array(each.type, next(left)) for each in outcome})
        else:
            results.append(_error(outcome))
    return results


def _error(status: status_pb2.Status) -> AclgradError:
    error = from_status(status)
    assert error is not None, status
    return error


def _array(type: TensorType, data: bytes | bytearray | memoryview) -> Array:
    assert len(data) == type.size_bytes
    return np.frombuffer(data, type.dtype.numpy).reshape(type.shape)


def _result(outcome: StepOutcome, shared: SharedBuffer | None) -> Result:
    if not isinstance(outcome, tuple):
        return _error(outcome)
    found = {}
    for each in outcome:
        if each.source.shared is None:
            found[each.name] = _array(each.type, b"" if each.data is None else each.data)
        else:
            assert shared is not None
            found[each.name] = shared.read(each.source.shared, each.type)
    return found
