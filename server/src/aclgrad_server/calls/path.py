"""The one way of every call, wherever its inputs come from and its output goes: plan, admit, inputs, run, reply."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from aclgrad.errors import AclgradError
from aclgrad.tensors import Announced
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call, deadline_passed
from aclgrad_server.calls.gate import Claim
from aclgrad_server.devices.device import Device, PlannedCall
from aclgrad_server.devices.planning import OperatorPlan, Planner, Source, check_reply_size, is_small
from aclgrad_server.devices.staged import StagedTensor
from aclgrad_server.limits import GROUP_S, SMALL_BYTES, WORK_PER_S
from aclgrad_server.statistics.calls import RUN, WAIT


@dataclass(frozen=True, slots=True)
class Staged:
    """The tensors of one call that come or go in pieces: inputs by name, and the output."""

    inputs: dict[str, StagedTensor]
    output: StagedTensor


@dataclass(frozen=True, slots=True)
class Path:
    """Runs plans on the device."""

    device: Device
    admission: Admission
    planner: Planner
    max_message_bytes: int

    async def unary(self, call: Call, plan: OperatorPlan, payloads: Sequence[memoryview]) -> bytes:
        """Returns the serialized ExecuteOperatorResponse of a call whose inputs came with its message."""
        check_reply_size(f"outputs[{plan.spec.output.name}]", plan.reply_bytes, self.max_message_bytes)
        memory = await self._memory(call, plan.size_bytes, plan.output_bytes, plan.is_small)
        try:
            place = await self.admission.place(call.caller, is_small=plan.is_small)
        except BaseException:
            memory.give_back()
            raise
        call.enter(RUN)
        end = partial(self._end, call, plan.is_small, place, memory, plan.size_bytes, plan.output_bytes)
        return await self.device.execute(plan, plan.contents(payloads), call.deadline, end)

    async def batch(self, call: Call, calls: Sequence[PlannedCall]) -> list["Ran"]:
        """Runs plans in groups that take little time, and returns what came of each.

        A group has as many streams as it has places, and others get these between groups.
        """
        size_bytes, output_bytes, work = _needs(calls)
        is_small_batch = is_small(size_bytes, work)
        # Outputs may have to be joined, with those of other groups or with statuses.
        reply_bytes = output_bytes if len(calls) == 1 else 2 * output_bytes
        memory = await self._memory(call, size_bytes, reply_bytes, is_small_batch)
        ran, left_bytes = [], size_bytes
        try:
            for group in _groups(calls):
                call.enter(WAIT)
                try:
                    async with asyncio.timeout_at(call.deadline):
                        place = await self.admission.place(call.caller, len(group), is_small_batch)
                except TimeoutError:
                    ran.append(Ran(b"", [deadline_passed() for _ in group]))
                    continue
                call.enter(RUN)
                size_bytes, output_bytes, _ = _needs(group)
                left_bytes -= size_bytes
                end = partial(self._end, call, is_small_batch, place, memory, size_bytes, output_bytes)
                ran.append(Ran(*await self.device.execute_all(group, call.deadline, place.units, end)))
        finally:
            memory.give_back(left_bytes)
        return ran

    @asynccontextmanager
    async def staged(
        self, call: Call, plan: OperatorPlan, source: Source, reply_bytes: int = 0
    ) -> AsyncIterator[Staged]:
        """Yields memory for inputs from the source and the output; `reply_bytes` stay admitted until the call ends."""
        size_bytes, waits_for_client = plan.staged_bytes(source), source is Announced
        call.enter(WAIT)
        memory = await self.admission.memory(call.caller, size_bytes, waits_for_client)
        call.enter(RUN)
        inputs = plan.inputs_in(source)
        sizes = [*((tensor.type.size_bytes, on_host) for tensor, on_host in inputs), (plan.output_bytes, False)]
        tensors = await self.device.stage(sizes, call.deadline, partial(_keep_until_end, call, memory, reply_bytes))
        names = [tensor.name for tensor, _ in inputs]
        try:
            yield Staged(dict(zip(names, tensors, strict=False)), tensors[-1])
        finally:
            # An error that is on its way out keeps its frames, and so whatever they refer to.
            for tensor in tensors:
                tensor.close()

    async def run(self, call: Call, plan: OperatorPlan, payloads: Sequence[memoryview], staged: Staged) -> None:
        """Runs a plan whose inputs are complete and whose output stays on the device."""
        call.enter(WAIT)
        place = await self.admission.place(call.caller)
        call.enter(RUN)
        contents = plan.contents(payloads, staged.inputs)
        await self.device.execute_into(plan, contents, staged.output, call.deadline, place.give_back)

    async def _memory(self, call: Call, size_bytes: int, reply_bytes: int, is_small_call: bool) -> Claim:
        """Returns a claim on the device's memory. Memory for a large reply stays claimed until the call ends."""
        call.enter(WAIT)
        memory = await self.admission.memory(call.caller, size_bytes, is_small=is_small_call)
        if reply_bytes > SMALL_BYTES:
            try:
                call.at_end((await self.admission.reply(call.caller, reply_bytes)).give_back)
            except BaseException:
                memory.give_back()
                raise
        return memory

    def _end(
        self, call: Call, is_small_call: bool, place: Claim, memory: Claim, size_bytes: int, output_bytes: int
    ) -> None:
        """Gives back what work that has ended held; the memory of its output when the call has ended."""
        self.admission.room(is_small_call).ran(place)
        memory.give_back(size_bytes - output_bytes)
        call.at_end(partial(memory.give_back, output_bytes))


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a group of a batch: its outputs, each behind its prefix, and the error of each that failed."""

    reply: bytes
    errors: list[AclgradError | None]


def _needs(calls: Sequence[PlannedCall]) -> tuple[int, int, float]:
    """Returns the bytes of calls together, those of their outputs, and their work."""
    plans = [plan for plan, _, _ in calls]
    size_bytes, output_bytes = sum(plan.size_bytes for plan in plans), sum(plan.output_bytes for plan in plans)
    return size_bytes, output_bytes, sum(plan.work for plan in plans)


def _groups(calls: Sequence[PlannedCall]) -> Iterator[Sequence[PlannedCall]]:
    """Yields calls that take about `GROUP_S` together, and single ones that take longer."""
    start, work = 0, 0.0
    for number, (plan, _, _) in enumerate(calls):
        if number > start and work + plan.work > GROUP_S * WORK_PER_S:
            yield calls[start:number]
            start, work = number, 0.0
        work += plan.work
    yield calls[start:]


def _keep_until_end(call: Call, memory: Claim, size_bytes: int) -> None:
    """Gives back all of the memory but so much, and the rest when the call has ended."""
    memory.give_back(memory.units - size_bytes)
    call.at_end(memory.give_back)
