"""ExecuteOperatorChunked: tensors of any size, in pieces, that go to the device while the next ones arrive."""

import asyncio
from typing import Any

from aclgrad.errors import InvalidFieldError, LimitExceededError, Violation
from aclgrad.tensors import Announced
from aclgrad.wire.chunks import (
    Chunk,
    chunk_prefix,
    decode_chunk,
    decode_header,
    encode_response_header,
)
from aclgrad.wire.limits import MAX_CHUNK_BYTES
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.path import Path, staged_bytes
from aclgrad_server.calls.planning import ExtractPayloads
from aclgrad_server.devices.device import StagedTensor


async def execute_chunked(path: Path, call: Call, max_call_bytes: int) -> None:
    """Sends the messages of the answer; raises an AclgradError if the call is refused or fails.

    The call claims all of its memory when its first chunk arrives, and a place to run after its last one.
    """
    extract = path.planner.extract_payloads
    header = decode_header(await call.read(), extract)
    call.works()
    plan = path.planner.plan(header.call)
    if plan.uses_shared_memory:
        raise _wrong("", "would come with shared memory", "send such a call as one message")
    if (size_bytes := staged_bytes(plan, Announced)) > max_call_bytes:
        problem = f"takes {size_bytes} bytes and one call may take {max_call_bytes}"
        remedy = "send smaller tensors, or raise --max-call-bytes (ACLGRAD_MAX_CALL_BYTES) of the server"
        raise LimitExceededError.of(Violation("call", problem, remedy))
    # Tells the client that the server is ready for chunks.
    await call.context.send_initial_metadata(())
    chunks = _Chunks(call, extract, await call.read_or_end())
    call.works()
    async with path.staged(call, plan, Announced) as staged:
        for index, name in enumerate(header.chunked):
            await chunks.receive(index, name, staged.inputs[name])
        await chunks.expect_end()
        call.works()
        await path.run(call, plan, (), staged)
        await call.write(encode_response_header(plan.spec.output.name, plan.output))
        await _send(call, staged.output, header.chunk_bytes)


class _Chunks:
    """The chunks of a call, checked for order and completeness; `first` has been read already."""

    def __init__(self, call: Call, extract: ExtractPayloads, first: bytes | None) -> None:
        self._call = call
        self._extract = extract
        self._next = first
        self._is_ahead = True

    async def receive(self, index: int, name: str, tensor: StagedTensor) -> None:
        """Writes every chunk of a tensor to its place, one while the next is received."""
        offset = 0
        write: asyncio.Future[None] | None = None
        try:
            while offset < tensor.size_bytes:
                message = await self._read()
                if message is None:
                    raise _wrong(name, f"ended after {offset} of {tensor.size_bytes} bytes", "send all chunks")
                chunk = decode_chunk(message, self._extract)
                _check(chunk, index, offset, tensor.size_bytes, name)
                if write is not None:
                    await write
                write = asyncio.ensure_future(tensor.write(offset, chunk.data, self._call.deadline))
                offset += len(chunk.data)
                self._call.moved(len(chunk.data))
            if write is not None:
                await write
        finally:
            _drop(write)
            # A failed task has this frame: a cycle, which would keep the message of every chunk.
            del write

    async def expect_end(self) -> None:
        if await self._read() is not None:
            raise _wrong("", "has more chunks than its inputs take", "send exactly the elements of the shapes")

    async def _read(self) -> bytes | None:
        if self._is_ahead:
            self._is_ahead = False
            first, self._next = self._next, None
            return first
        return await self._call.read_or_end()


async def _send(call: Call, output: StagedTensor, chunk_bytes: int) -> None:
    """Sends the output; a chunk is read from the device while the one before it is sent."""
    following: asyncio.Future[bytes] | None = None
    try:
        for offset in range(-chunk_bytes, output.size_bytes, chunk_bytes):
            message = await following if following is not None else None
            start = offset + chunk_bytes
            count = min(chunk_bytes, output.size_bytes - start)
            following = None
            if count > 0:
                prefix = chunk_prefix(0, start, count)
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


def _check(chunk: Chunk, tensor: int, offset: int, size_bytes: int, name: str) -> None:
    if (chunk.tensor, chunk.offset) != (tensor, offset):
        problem = (
            f"has a chunk of tensor {chunk.tensor} at byte {chunk.offset} where tensor {tensor} goes on at {offset}"
        )
        raise _wrong(name, problem, "send the chunks by tensor, then by offset, without gaps")
    if not chunk.data:
        raise _wrong(name, f"has an empty chunk at byte {offset}", "send at least one byte in each chunk")
    if len(chunk.data) > MAX_CHUNK_BYTES:
        problem = f"has a chunk of {len(chunk.data)} bytes at byte {offset} and the limit is {MAX_CHUNK_BYTES}"
        raise _wrong(name, problem, "send smaller chunks")
    if len(chunk.data) > size_bytes - offset:
        problem = f"has a chunk of {len(chunk.data)} bytes at byte {offset} of {size_bytes}"
        raise _wrong(name, problem, "send exactly the elements of the shape")


def _wrong(name: str, problem: str, remedy: str) -> InvalidFieldError:
    return InvalidFieldError.of(Violation(f"inputs[{name}]" if name else "chunk", problem, remedy))
