"""ExecuteOperatorChunked: tensors of any size, in pieces, that go to the device while the next ones arrive."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aclgrad.errors import InvalidFieldError, LimitExceededError
from aclgrad.sources import CHUNKS
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import (
    Header,
    check_chunk,
    chunk_prefix,
    decode_chunk,
    decode_header,
    encode_response_header,
)
from aclgrad.wire.limits import MAX_CHUNK_BYTES
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.runner import Runner, Step
from aclgrad_server.devices.device import Device, Read, StagedTensor, Write
from aclgrad_server.devices.planning import PlannedStep, extract_payloads

CHUNKS_AT_ONCE: Final = 4
"""So many chunks make one piece of work for the device's threads, each of which wakes a thread and the event loop."""


async def execute_chunked(runner: Runner, max_call_bytes: int, call: Call) -> None:
    """Sends the answer. The call claims all of its memory when its first chunk arrives, and a slot after its last."""
    header = decode_header(await call.read(), extract_payloads)
    call.works()
    planned = runner.planner.step(header.call, CHUNKS)
    plan = planned.plan
    call.operator = plan.spec.name
    if planned.is_shared:
        raise InvalidFieldError.at("chunk", "would come with shared memory", "send such a call as one message")
    size_bytes = runner.admission.device_bytes(plan.size_bytes, planned.checked_bytes + plan.encoded_bytes)
    if size_bytes > max_call_bytes:
        problem = f"takes {size_bytes} bytes and one call may take {max_call_bytes}"
        remedy = "send smaller tensors, or raise --max-call-bytes (ACLGRAD_MAX_CALL_BYTES) of the server"
        raise LimitExceededError.at("call", problem, remedy)
    # Tells the client that the server is ready for chunks.
    await call.context.send_initial_metadata(())
    await call.peek()
    call.works()
    # One direction has those of two copies on their way.
    inputs = sum(source.nbytes for _, source in planned.beside)
    messages_bytes = min(2 * CHUNKS_AT_ONCE * MAX_CHUNK_BYTES, max(inputs, plan.output_bytes))
    await runner.run_beside(call, Step(planned, ()), Chunks(runner.device, call, planned, header), messages_bytes)


class Chunks:
    """The chunks of one call, in both directions."""

    def __init__(self, device: Device, call: Call, planned: PlannedStep, header: Header) -> None:
        self._device = device
        self._call = call
        self._planned = planned
        self._header = header

    async def bring(self, inputs: Mapping[str, StagedTensor]) -> Sequence[Write]:
        """Writes chunks into their tensors, some at a time, while the next ones are received; returns the last ones."""
        device, call = self._device, self._call
        left = sum(tensor.size_bytes for tensor in inputs.values())
        writes: list[Write] = []  # those that have not begun
        under_way: asyncio.Future[None] | None = None
        try:
            for index, name in enumerate(self._header.chunked):
                tensor, received = inputs[name], 0
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
            if await call.read_or_end() is not None:
                problem = "has more chunks than its inputs take"
                raise InvalidFieldError.at("chunk", problem, "send exactly the elements of the shapes")
            call.works()
            return writes
        finally:
            _drop(under_way)
            # A failed task has this frame: a cycle, which would keep the message of every chunk.
            del under_way

    def reads(self, outputs: Sequence[StagedTensor]) -> Sequence[Read]:
        self._left = _reads(outputs, self._header.chunk_bytes)
        return list(islice(self._left, CHUNKS_AT_ONCE))

    async def take(self, outputs: Sequence[StagedTensor], messages: list[bytes]) -> bytes:
        """Sends the messages; some chunks are read from the device while those before them are sent."""
        device, call, following = self._device, self._call, None
        await call.write(
            encode_response_header(*(TensorView(each.name, each.type) for each in self._planned.plan.outputs))
        )
        try:
            while messages:
                group = list(islice(self._left, CHUNKS_AT_ONCE))
                following = asyncio.ensure_future(device.read(group, call.deadline)) if group else None
                for message in messages:
                    await call.write(message)
                    call.moved(len(message))
                messages = await following if following is not None else []
            return b""
        finally:
            _drop(following)
            del following


def _reads(outputs: Sequence[StagedTensor], chunk_bytes: int) -> Iterator[Read]:
    """Yields the chunks of the answer."""
    for index, output in enumerate(outputs):
        for start in range(0, output.size_bytes, chunk_bytes):
            count = min(chunk_bytes, output.size_bytes - start)
            yield output, start, chunk_prefix(index, start, count), count


def _drop(work: "asyncio.Future[Any] | None") -> None:
    """Cancels work whose result nobody needs, and ignores its failure."""
    if work is not None and not work.cancel() and not work.cancelled():
        work.exception()
