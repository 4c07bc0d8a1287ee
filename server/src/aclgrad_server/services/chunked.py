"""ExecuteOperatorChunked: tensors of any size, in pieces, that go to the device while the next ones arrive."""

from collections.abc import Callable, Iterator, Sequence

from aclgrad.errors import InvalidFieldError, MalformedRequestError, Violation
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_chunk, decode_header, encode_response_header
from aclgrad_server.device import DeviceCall
from aclgrad_server.executor import Executor, remaining
from aclgrad_server.planner import Planner
from aclgrad_server.staged import Gathered, device_inputs, gather, gathered_bytes


def execute_chunked(
    planner: Planner, executor: Executor, messages: Iterator[bytes], accept: Callable[[], None], deadline: float
) -> Iterator[bytes]:
    """Yields the serialized messages of the answer; raises an AclgradError where the call is refused or fails.

    The call holds the memory of its tensors from its header on, and a place to run only while its operator runs;
    `accept` is called between, for clients that wait with their chunks until they know that they are welcome.
    """
    first = next(messages, None)
    if first is None:
        raise MalformedRequestError("the call ended before its header")
    header = decode_header(first, planner.extract_payloads)
    plan = planner.plan(header.call)
    if plan.uses_shared_memory:
        raise _wrong("", "would come with shared memory", "send such a call as one message")
    with executor.hold(plan.size_bytes + gathered_bytes(plan), deadline) as device:
        staging = device.stage(remaining(deadline))
        gathered = gather(staging, plan)
        accept()
        _receive(planner, messages, [gathered[name] for name in header.chunked], header.chunked, deadline)
        staging.finish(remaining(deadline))
        inputs = device_inputs(device, plan, gathered)
        output = staging.reserve(plan.output_bytes)
        if not plan.is_empty:
            with executor.admission.run(deadline):
                device.execute(DeviceCall(plan, inputs, output), remaining(deadline))
        yield encode_response_header(plan.spec.output.name, plan.output)
        for offset in range(0, plan.output_bytes, header.chunk_bytes):
            count = min(header.chunk_bytes, plan.output_bytes - offset)
            reply = device.new_reply([(chunk_prefix(0, offset, count), count)])
            (part,) = reply.parts()
            if plan.is_empty:
                # The device was not asked, and its memory holds what others left there.
                part.fill_with_zeros()
            else:
                output.read(offset, part, remaining(deadline))
            yield reply.finish()


def _receive(
    planner: Planner, messages: Iterator[bytes], buffers: Sequence[Gathered], names: Sequence[str], deadline: float
) -> None:
    """Writes every chunk to its place; raises InvalidFieldError unless they come in order, complete and not more."""
    expected = [(index, buffer) for index, buffer in enumerate(buffers) if buffer.size_bytes]
    for index, buffer in expected:
        offset = 0
        while offset < buffer.size_bytes:
            message = next(messages, None)
            if message is None:
                raise _wrong(names[index], f"ended after {offset} of {buffer.size_bytes} bytes", "send all chunks")
            chunk = decode_chunk(message, planner.extract_payloads)
            _check(chunk, index, offset, buffer.size_bytes, names[index])
            buffer.write(offset, chunk.data, remaining(deadline))
            offset += len(chunk.data)
    if next(messages, None) is not None:
        raise _wrong("", "has more chunks than its inputs take", "send exactly the elements of the shapes")


def _check(chunk: Chunk, tensor: int, offset: int, size_bytes: int, name: str) -> None:
    if (chunk.tensor, chunk.offset) != (tensor, offset):
        problem = (
            f"has a chunk of tensor {chunk.tensor} at byte {chunk.offset} where tensor {tensor} goes on at {offset}"
        )
        raise _wrong(name, problem, "send the chunks by tensor, then by offset, without gaps")
    if not chunk.data:
        raise _wrong(name, f"has an empty chunk at byte {offset}", "send at least one byte in each chunk")
    if len(chunk.data) > size_bytes - offset:
        problem = f"has a chunk of {len(chunk.data)} bytes at byte {offset} of {size_bytes}"
        raise _wrong(name, problem, "send exactly the elements of the shape")


def _wrong(name: str, problem: str, remedy: str) -> InvalidFieldError:
    return InvalidFieldError.of(Violation(f"inputs[{name}]" if name else "chunk", problem, remedy))
