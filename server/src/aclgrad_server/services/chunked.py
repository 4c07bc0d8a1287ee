"""ExecuteProgramChunked: tensors of any size in chunks, copied to the device while earlier steps run."""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from aclgrad.errors import InvalidFieldError, to_status
from aclgrad.sources import SHAPE_ONLY
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import check_chunk, chunk_prefix, decode_chunk, encode_results
from aclgrad.wire.limits import MAX_CHUNK_BYTES
from aclgrad.wire.programs import StepOutcome
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.outcome import Outcome
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.schedule import IN_TABLE, FromHeld, Key, Schedule
from aclgrad_server.devices.device import Device, Read, StagedTensor, Write
from aclgrad_server.devices.planning import extract_payloads
from aclgrad_server.devices.steps import PlannedProgram
from aclgrad_server.services.programs import items_of, log_failures, name_program, pauses, refuse_beyond

CHUNKS_AT_ONCE: Final = 4
"""Chunks per task of the device's threads; each task wakes a thread and the event loop."""

RESULTS_AT_ONCE: Final = 256
"""Results per message: the status of a failed step takes up to about 1 KB."""


async def execute_chunked(runner: Runner, call: Call) -> None:
    """Sends the answer. The call claims all its memory when its first chunk arrives, and a slot for each group."""
    pause = pauses(runner, call)
    message = await call.read()
    call.works()
    program, payloads = await runner.programs.read_header(message, pause)
    del message
    name_program(call, program)
    program = refuse_beyond(runner, call, program)
    if not program.steps and program.failures:
        # Before the client sends useless chunks.
        raise program.failures[min(program.failures)]
    # The client now sends chunks.
    await call.context.send_initial_metadata(())
    await call.peek()
    call.works()
    chunks = Chunks(runner.device, call, program)
    outcome = await runner.run_program(call, program, payloads, pause, chunks.of, chunks.messages_bytes)
    call.items = items_of(program, outcome.failures)
    log_failures(call, outcome.failures)


class Chunks:
    """The chunks of one call in both directions, transferred by tasks of their own while groups run."""

    def __init__(self, device: Device, call: Call, program: PlannedProgram) -> None:
        self._device = device
        self._call = call
        self._program = program
        self._announced = [i for i, each in enumerate(program.table) if each.source.in_chunks]
        self._counts = {entry: position + 1 for position, entry in enumerate(self._announced)}
        """For each tensor, how many tensors have arrived when it has."""
        self._places: dict[int, asyncio.Future[StagedTensor]] = {}
        """The destination of each tensor once it has memory; other tensors are not needed any more."""
        self._arrived_count = 0
        self._arrived = asyncio.Event()
        self._ended: asyncio.Queue[tuple[int, dict[Key, StagedTensor], Outcome] | None] = asyncio.Queue()
        """The groups with results to send."""
        self._receiving: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def messages_bytes(self) -> int:
        """The bytes of chunks in flight: those of two copies in each direction."""
        inputs = sum(self._program.table[each].type.size_bytes for each in self._announced)
        outputs = sum(step.plan.output_bytes for step in self._program.steps.values())
        return min(2 * CHUNKS_AT_ONCE * MAX_CHUNK_BYTES, max(inputs, outputs))

    def of(self, schedule: Schedule) -> "Chunks":
        """Takes the schedule of the program, which is about to run."""
        self._groups = schedule.groups
        used = {each.key[1] for group in schedule.groups for each in group.begins if each.key[0] == IN_TABLE}
        loop = asyncio.get_running_loop()
        self._places = {each: loop.create_future() for each in self._announced if each in used}
        return self

    async def bring(self, index: int, held: dict[Key, StagedTensor]) -> None:
        for entry, place in self._places.items():
            if not place.done() and (IN_TABLE, entry) in held:
                place.set_result(held[IN_TABLE, entry])
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive())
            self._receiving.add_done_callback(lambda _: self._arrived.set())
            self._sending = asyncio.create_task(self._send())
        contents = [each for step in self._groups[index].steps for each in step.contents]
        entries = [each.key[1] for each in contents if isinstance(each, FromHeld) and each.key[0] == IN_TABLE]
        due = max((self._counts[each] for each in entries if each in self._places), default=0)
        while self._arrived_count < due:
            if self._receiving.done():
                self._receiving.result()
            self._arrived.clear()
            await self._arrived.wait()

    async def take(self, index: int, held: dict[Key, StagedTensor], outcome: Outcome) -> None:
        self._ended.put_nowait((index, held, outcome))

    async def finish(self) -> None:
        self._ended.put_nowait(None)
        if self._receiving is not None and self._sending is not None:
            await self._receiving
            await self._sending

    async def stop(self) -> None:
        self._is_over = True
        # A reader is not cancelled: gRPC would never free a message that comes for it. It ends with the call.
        for task in (self._sending, None if self._call.is_reading else self._receiving):
            if task is not None:
                task.cancel()
        for task in (self._sending, self._receiving):
            if task is not None:
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self._receiving = self._sending = None

    async def _receive(self) -> None:
        """Writes chunks into their tensors, some at a time, while the next ones are received."""
        device, call = self._device, self._call
        under_way: asyncio.Future[None] | None = None
        try:
            for position, entry in enumerate(self._announced):
                place, size_bytes, received = self._places.get(entry), self._program.table[entry].type.size_bytes, 0
                if place is not None and not place.done():
                    call.works()  # not counted as the client's slowness
                tensor = None if place is None else await place
                writes: list[Write] = []  # copies that have not begun
                while received < size_bytes:
                    message = await call.read_or_end()
                    if self._is_over:
                        return
                    if message is None:
                        await call.cut_short()
                        problem = f"ended after {received} of {size_bytes} bytes"
                        raise InvalidFieldError.at(f"tensors[{entry}]", problem, "send all chunks")
                    chunk = decode_chunk(message, extract_payloads)
                    check_chunk(chunk, entry, received, size_bytes)
                    received += len(chunk.data)
                    call.moved(len(chunk.data))
                    if tensor is None:
                        continue
                    writes.append((tensor, received - len(chunk.data), chunk.data))
                    if len(writes) == CHUNKS_AT_ONCE or received == size_bytes:
                        if under_way is not None:
                            await under_way
                        under_way = asyncio.ensure_future(device.write(writes, call.deadline))
                        writes = []
                if under_way is not None:
                    # Not awaited: the next tensor is received meanwhile.
                    under_way.add_done_callback(partial(self._note_arrival, position + 1))
                else:
                    self._arrived_count = position + 1
                    self._arrived.set()
            if under_way is not None:
                await under_way
            if await call.read_or_end() is not None:
                problem = "has more chunks than its tensors take"
                raise InvalidFieldError.at("chunk", problem, "send exactly the elements of the shapes")
            call.works()
        finally:
            _drop(under_way)
            # A failed task refers to this frame: the cycle would keep the messages of all chunks.
            del under_way

    def _note_arrival(self, count: int, written: "asyncio.Future[None]") -> None:
        if not written.cancelled() and written.exception() is None:
            self._arrived_count = max(self._arrived_count, count)
        self._arrived.set()

    async def _send(self) -> None:
        """Sends the results of each group; chunks are read from the device while earlier ones are sent."""
        call, begin = self._call, 0
        while (ended := await self._ended.get()) is not None:
            index, held, outcome = ended
            is_last = index + 1 == len(self._groups)
            end = self._program.step_count if is_last else self._groups[index].steps[-1].number + 1
            for first in range(begin, end, RESULTS_AT_ONCE):
                numbers = range(first, min(first + RESULTS_AT_ONCE, end))
                results, outputs = self._results(numbers, held, outcome)
                await call.write(encode_results(results))
                await self._send_chunks(_reads(outputs, self._program.chunk_bytes))
            begin = end
            if self._receiving is None or self._receiving.done():
                call.works()

    async def _send_chunks(self, left: Iterator[Read]) -> None:
        device, call = self._device, self._call
        group = list(islice(left, CHUNKS_AT_ONCE))
        following = asyncio.ensure_future(device.read(group, call.deadline)) if group else None
        try:
            while following is not None:
                messages = await following
                group = list(islice(left, CHUNKS_AT_ONCE))
                following = asyncio.ensure_future(device.read(group, call.deadline)) if group else None
                for message in messages:
                    await call.write(message)
                    call.moved(len(message))
        finally:
            _drop(following)
            del following

    def _results(
        self, numbers: range, held: dict[Key, StagedTensor], outcome: Outcome
    ) -> tuple[list[StepOutcome], list[StagedTensor]]:
        """Returns the results of these steps, and the tensors whose elements follow."""
        results: list[StepOutcome] = []
        tensors: list[StagedTensor] = []
        failures = {number: outcome.failures[number] for number in numbers if number in outcome.failures}
        for number in numbers:
            if number in failures:
                results.append(to_status(failures[number], self._call.request_id))
                continue
            step = self._program.steps[number]
            outputs = []
            for position, (output, sink) in enumerate(zip(step.plan.outputs, step.sinks, strict=True)):
                if sink.in_chunks:
                    tensors.append(held[number, position])
                if sink.in_chunks or sink.shared is not None:
                    outputs.append(TensorView(output.name, output.type, sink.shared or SHAPE_ONLY))
            results.append(tuple(outputs))
        return results, tensors


def _reads(tensors: Iterable[StagedTensor], chunk_bytes: int) -> Iterator[Read]:
    """Yields the chunks of the answer."""
    for index, tensor in enumerate(tensors):
        for start in range(0, tensor.size_bytes, chunk_bytes):
            count = min(chunk_bytes, tensor.size_bytes - start)
            yield tensor, start, chunk_prefix(index, start, count), count


def _drop(work: "asyncio.Future[Any] | None") -> None:
    """Cancels tasks whose results nobody needs, and ignores their failures."""
    if work is not None and not work.cancel() and not work.cancelled():
        work.exception()
