"""ExecuteOperatorChunked: tensors of any size, in pieces, that go to the device while the next ones arrive."""

import asyncio
from typing import Any

from aclgrad.errors import InvalidFieldError, LimitExceededError
from aclgrad.tensors import Announced, TensorView
from aclgrad.wire.chunks import check_chunk, chunk_prefix, decode_chunk, decode_header, encode_response_header
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.planning import extract_payloads
from aclgrad_server.devices.staged import StagedTensor


async def execute_chunked(runner: Runner, max_call_bytes: int, call: Call) -> None:
    """Sends the answer. The call claims all of its memory when its first chunk arrives, and a place after its last."""
    header = decode_header(await call.read(), extract_payloads)
    call.works()
    plan = runner.planner.plan(header.call)
    call.operator = plan.spec.name
    if plan.uses_shared_memory:
        raise InvalidFieldError.at("chunk", "would come with shared memory", "send such a call as one message")
    if (size_bytes := plan.staged_bytes(Announced)) > max_call_bytes:
        problem = f"takes {size_bytes} bytes and one call may take {max_call_bytes}"
        remedy = "send smaller tensors, or raise --max-call-bytes (ACLGRAD_MAX_CALL_BYTES) of the server"
        raise LimitExceededError.at("call", problem, remedy)
    # Tells the client that the server is ready for chunks.
    await call.context.send_initial_metadata(())
    await call.peek()
    call.works()
    async with runner.staged(call, plan, Announced) as staged:
        for index, name in enumerate(header.chunked):
            await _receive(call, index, name, staged.inputs[name])
        if await call.read_or_end() is not None:
            problem = "has more chunks than its inputs take"
            raise InvalidFieldError.at("chunk", problem, "send exactly the elements of the shapes")
        call.works()
        await runner.run(call, plan, (), staged)
        await call.write(encode_response_header(*(TensorView(each.name, each.type) for each in plan.outputs)))
        for index, output in enumerate(staged.outputs):
            await _send(call, index, output, header.chunk_bytes)


async def _receive(call: Call, index: int, name: str, tensor: StagedTensor) -> None:
    """Writes every chunk of a tensor to its place, one while the next is received."""
    offset = 0
    write: asyncio.Future[None] | None = None
    try:
        while offset < tensor.size_bytes:
            message = await call.read_or_end()
            if message is None:
                problem = f"ended after {offset} of {tensor.size_bytes} bytes"
                raise InvalidFieldError.at(f"inputs[{name}]", problem, "send all chunks")
            chunk = decode_chunk(message, extract_payloads)
            check_chunk(chunk, name, index, offset, tensor.size_bytes)
            if write is not None:
                await write
            write = asyncio.ensure_future(tensor.write(offset, chunk.data, call.deadline))
            offset += len(chunk.data)
            call.moved(len(chunk.data))
        if write is not None:
            await write
    finally:
        _drop(write)
        # A failed task has this frame: a cycle, which would keep the message of every chunk.
        del write


async def _send(call: Call, index: int, output: StagedTensor, chunk_bytes: int) -> None:
    """Sends one output; a chunk is read from the device while the one before it is sent."""
    following: asyncio.Future[bytes] | None = None
    try:
        for offset in range(-chunk_bytes, output.size_bytes, chunk_bytes):
            message = await following if following is not None else None
            start = offset + chunk_bytes
            count = min(chunk_bytes, output.size_bytes - start)
            following = None
            if count > 0:
                prefix = chunk_prefix(index, start, count)
                following = asyncio.ensure_future(output.read(start, count, prefix, call.deadline))
            if message is not None:
                await call.write(message)
                call.moved(len(message))
    finally:
        _drop(following)
        del following


def _drop(work: "asyncio.Future[Any] | None") -> None:
    """Cancels work whose result nobody needs, and ignores its failure."""
    if work is not None and not work.cancel() and not work.cancelled():
        work.exception()
