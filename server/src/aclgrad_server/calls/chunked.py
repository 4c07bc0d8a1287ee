"""ExecuteOperatorChunked: tensors of any size, in pieces, that go to the device while the next ones arrive."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from aclgrad.errors import InvalidFieldError, LimitExceededError
from aclgrad.tensors import Announced, TensorView
from aclgrad.wire.chunks import (
    check_chunk,
    chunk_prefix,
    decode_chunk,
    decode_header,
    encode_response_header,
)
from aclgrad.wire.limits import MAX_CHUNK_BYTES
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.runner import Runner, Staged
from aclgrad_server.devices.device import Device, Read, StagedTensor, Write
from aclgrad_server.devices.planning import extract_payloads

CHUNKS_AT_ONCE: Final = 4
"""So many chunks make one piece of work for the device's threads, each of which wakes a thread and the event loop."""


async def execute_chunked(runner: Runner, max_call_bytes: int, call: Call) -> None:
    """Sends the answer. The call claims all of its memory when its first chunk arrives, and a place after its last."""
    header = decode_header(await call.read(), extract_payloads)
    call.works()
    plan = runner.planner.plan(header.call)
    call.operator = plan.spec.name
    if plan.uses_shared_memory:
        raise InvalidFieldError.at("chunk", "would come with shared memory", "send such a call as one message")
    size_bytes = runner.admission.device_bytes(plan.size_bytes, plan.checked_bytes(Announced))
    if size_bytes > max_call_bytes:
        problem = f"takes {size_bytes} bytes and one call may take {max_call_bytes}"
        remedy = "send smaller tensors, or raise --max-call-bytes (ACLGRAD_MAX_CALL_BYTES) of the server"
        raise LimitExceededError.at("call", problem, remedy)
    # Tells the client that the server is ready for chunks.
    await call.context.send_initial_metadata(())
    await call.peek()
    call.works()
    async with runner.staged(call, plan, Announced) as staged:
        await runner.admission.claim_reply(call, _messages_bytes(staged))
        last = await _receive(runner.device, call, [(name, staged.inputs[name]) for name in header.chunked])
        if await call.read_or_end() is not None:
            problem = "has more chunks than its inputs take"
            raise InvalidFieldError.at("chunk", problem, "send exactly the elements of the shapes")
        call.works()
        reads = _reads(staged.outputs, header.chunk_bytes)
        first = await runner.run(call, plan, (), staged, last, list(islice(reads, CHUNKS_AT_ONCE)))
        # They would keep the last chunks while the answer is sent.
        del last
        await call.write(encode_response_header(*(TensorView(each.name, each.type) for each in plan.outputs)))
        await _send(runner.device, call, first, reads)


def _messages_bytes(staged: Staged) -> int:
    """Returns how many bytes of chunks one direction has on their way: those of two copies."""
    inputs = sum(each.size_bytes for each in staged.inputs.values())
    outputs = sum(each.size_bytes for each in staged.outputs)
    return min(2 * CHUNKS_AT_ONCE * MAX_CHUNK_BYTES, max(inputs, outputs))


async def _receive(device: Device, call: Call, inputs: Sequence[tuple[str, StagedTensor]]) -> list[Write]:
    """Writes chunks to their places, some at a time, while the next ones are received; returns the last ones."""
    left = sum(tensor.size_bytes for _, tensor in inputs)
    writes: list[Write] = []  # those that have not begun
    under_way: asyncio.Future[None] | None = None
    try:
        for index, (name, tensor) in enumerate(inputs):
            received = 0
            while received < tensor.size_bytes:
                message = await call.read_or_end()
                if message is None:
                    await call.cut_short()
                    problem = f"ended after {received} of {tensor.size_bytes} bytes"
                    raise InvalidFieldError.at(f"inputs[{name}]", problem, "send all chunks")
                chunk = decode_chunk(message, extract_payloads)
                check_chunk(chunk, name, index, received, tensor.size_bytes)
                writes.append((tensor, received, chunk.data))
                received += len(chunk.data)
                left -= len(chunk.data)
                call.moved(len(chunk.data))
                if left and len(writes) == CHUNKS_AT_ONCE:
                    if under_way is not None:
                        await under_way
                    under_way = asyncio.ensure_future(device.write(writes, call.deadline))
                    writes = []
        if under_way is not None:
            await under_way
        return writes
    finally:
        _drop(under_way)
        # A failed task has this frame: a cycle, which would keep the message of every chunk.
        del under_way


def _reads(outputs: Sequence[StagedTensor], chunk_bytes: int) -> Iterator[Read]:
    """Yields the chunks of the answer."""
    for index, output in enumerate(outputs):
        for start in range(0, output.size_bytes, chunk_bytes):
            count = min(chunk_bytes, output.size_bytes - start)
            yield output, start, chunk_prefix(index, start, count), count


async def _send(device: Device, call: Call, messages: list[bytes], reads: Iterator[Read]) -> None:
    """Sends the messages; some chunks are read from the device while those before them are sent."""
    following: asyncio.Future[list[bytes]] | None = None
    try:
        while messages:
            group = list(islice(reads, CHUNKS_AT_ONCE))
            following = asyncio.ensure_future(device.read(group, call.deadline)) if group else None
            for message in messages:
                await call.write(message)
                call.moved(len(message))
            messages = await following if following is not None else []
    finally:
        _drop(following)
        del following


def _drop(work: "asyncio.Future[Any] | None") -> None:
    """Cancels work whose result nobody needs, and ignores its failure."""
    if work is not None and not work.cancel() and not work.cancelled():
        work.exception()
