"""Runs programs: ordered steps of one operator each, in groups that take turns on the device."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aclgrad.errors import AclgradError, DeviceLostError, LimitExceededError, ServerFaultError
from aclgrad_server.calls.admission import Admission, Claims, Demand, Turn
from aclgrad_server.calls.call import Call, deadline_passed
from aclgrad_server.calls.outcome import Outcome, pieces_of
from aclgrad_server.calls.schedule import Group, Key, Schedule, bytes_at_once, work_of
from aclgrad_server.calls.scheduling import make_schedule
from aclgrad_server.calls.shared_memory import SharedMemory, SharedTensors
from aclgrad_server.devices.device import Device, OnEnd, StagedTensor
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.planning import Planner, check_reply_size
from aclgrad_server.devices.programs import Pause, ProgramPlanner
from aclgrad_server.devices.steps import PlannedProgram, PlannedStep, first_failure, input_failed
from aclgrad_server.limits import SMALL_BYTES, SMALL_S
from aclgrad_server.statistics import RUN, WAIT

log = logging.getLogger(__name__)

Ran = tuple[Any, Sequence[AclgradError | None]]
"""A group's outcome: the bytes of its replies, and the error of each step that failed."""
Attempt = Callable[[OnEnd, Sequence[int]], Awaitable[Ran]]
"""Runs a group whose lanes have workspaces of at most these sizes."""
_ALONE: Final = (0,)


class Transfer(Protocol):
    """Transfers the tensors of a program that have messages of their own."""

    async def bring(self, index: int, held: dict[Key, StagedTensor]) -> None:
        """Returns when the tensors that this group needs have arrived."""

    async def take(self, index: int, held: dict[Key, StagedTensor], outcome: Outcome) -> None:
        """Notes that the group has ended; its outputs may be sent until `finish` has returned."""

    async def finish(self) -> None:
        """Returns when all tensors have been sent."""

    async def stop(self) -> None:
        """Cancels transfers under way."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs. Those of several steps, or with tensors outside the message, take at most `max_call_bytes`."""

    device: Device
    admission: Admission
    planner: Planner
    programs: ProgramPlanner
    memory: SharedMemory
    max_message_bytes: int
    max_call_bytes: int
    pausing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one program that continues in the next turn of the event loop."""

    def execute(self, request: bytes, call: Call) -> Awaitable[bytes]:
        """Runs an ExecuteOperatorRequest and returns its response."""
        step, payloads = self.planner.read(request)
        plan = step.plan
        call.operator = plan.spec.name
        check_reply_size(f"outputs[{plan.outputs[0].name}]", step.message_bytes, self.max_message_bytes)
        return (self._run_beside if step.is_beside else self.run_step)(call, step, payloads)

    async def _run_beside(self, call: Call, step: PlannedStep, payloads: Sequence[memoryview]) -> bytes:
        """Runs one step with tensors in shared memory, and returns the ExecuteOperatorResponse."""
        outcome = await self.run_program(call, step.alone, payloads, _at_once)
        if 0 in outcome.failures:
            raise outcome.failures.pop(0)
        ((_, section),) = outcome.sections()
        return b"".join(pieces_of(step, section[outcome.steps[0] - step.section_bytes :]))

    async def run_step(self, call: Call, step: PlannedStep, payloads: Sequence[memoryview]) -> bytes:
        """Runs one step, whose tensors are in the messages, and returns the ExecuteOperatorResponse."""
        plan = step.plan
        workspace_bytes = plan.workspace.size_bytes
        is_light = plan.size_bytes + plan.encoded_bytes <= SMALL_BYTES and plan.seconds <= SMALL_S
        demand = Demand(
            (plan.size_bytes + workspace_bytes,),
            (plan.encoded_bytes,),
            (0, step.replied_bytes),
            workspace_bytes,
            plan.output_bytes,
            plan.seconds,
            is_light,
            longest_s=plan.seconds,
        )
        contents = [None if each is None else each.content(payloads) for each in step.sources]
        claims = await self.admission.claim(call, demand)

        async def attempt(on_end: OnEnd, workspaces: Sequence[int]) -> Ran:
            return await self.device.execute(plan, contents, call.deadline, on_end, workspaces[0]), (None,)

        try:
            turn = await _turn(call, claims)
            reply: bytes
            reply, (error,) = await self._attempt(call, claims, turn, [workspace_bytes], [plan.size_bytes], attempt)
        finally:
            claims.close()
        if error is not None:
            raise error
        return reply

    async def run_program(
        self,
        call: Call,
        program: PlannedProgram,
        payloads: Sequence[memoryview],
        pause: Pause,
        transfer_of: Callable[[Schedule], Transfer] | None = None,
        reply_bytes: int | None = None,
    ) -> Outcome:
        """Runs the legal steps of a program, and returns the outcome of all.

        Raises LimitExceededError if it takes too much at once, with its `peak_bytes`, and DeviceLostError.
        `reply_bytes` are those of messages that wait for the client, by default those of one reply.
        """
        if not program.steps:
            return Outcome(dict(program.failures))
        if program.schedule is None:
            limits = self.planner.limits
            waits, copies = not self.device.stops_at_faults, not limits.host_pointers
            streams = self.admission.large.running_limit
            program.schedule = await make_schedule(program, pause, streams, waits, copies)
        schedule: Schedule = program.schedule
        workspaces = schedule.workspaces()
        demand = schedule.demand(workspaces, self.admission.large.running_limit, reply_bytes)
        self._check_peak(demand)
        shared = SharedTensors(self.memory, self.device, call, program) if program.is_shared else None
        transfer = None if transfer_of is None else transfer_of(schedule)
        outcome = Outcome(dict(program.failures))
        held: dict[Key, StagedTensor] = {}
        claims = await self.admission.claim(call, demand)
        try:
            for index, group in enumerate(schedule.groups):
                if group.begins:
                    call.enter(RUN)
                    sizes = [(each.size_bytes, each.on_host) for each in group.begins]
                    staged = await self.device.stage(sizes, call.deadline, claims.hold())
                    held |= zip((each.key for each in group.begins), staged, strict=True)
                if shared is not None:
                    await shared.bring(group, held)
                if transfer is not None:
                    await transfer.bring(index, held)
                await self._run_group(call, claims, index, group, workspaces[index], payloads, held, outcome)
                if shared is not None:
                    await shared.take(group, held, outcome.failures)
                if transfer is not None:
                    await transfer.take(index, held, outcome)
                if index + 1 < len(schedule.groups):
                    for key in group.ends:
                        held.pop(key).close()
            if transfer is not None:
                await transfer.finish()
        finally:
            if transfer is not None:
                await transfer.stop()
            # An error that propagates keeps its frames, and all that they refer to.
            for tensor in held.values():
                tensor.close()
            claims.close()
        return outcome

    def _check_peak(self, demand: Demand) -> None:
        peak_bytes = max(
            self.admission.device_bytes(device, process)
            for device, process in zip(demand.device, demand.process, strict=True)
        )
        if peak_bytes > self.max_call_bytes:
            problem = f"takes {peak_bytes} bytes at once and one call may take {self.max_call_bytes}"
            remedy = "send smaller tensors or fewer steps, or raise --max-call-bytes (ACLGRAD_MAX_CALL_BYTES)"
            metadata = {"peak_bytes": str(peak_bytes), "limit": str(self.max_call_bytes)}
            raise LimitExceededError.at("call", problem, f"{remedy} of the server", metadata)

    async def _run_group(
        self,
        call: Call,
        claims: Claims,
        index: int,
        group: Group,
        workspaces: Sequence[int],
        payloads: Sequence[memoryview],
        held: dict[Key, StagedTensor],
        outcome: Outcome,
    ) -> None:
        """Runs the steps of a group whose inputs have arrived, in one turn."""
        failures = outcome.failures
        for step in group.steps:
            causes = [first_failure(need, failures[need]) for need in step.needs if need in failures]
            if causes:
                failures[step.number] = input_failed(min(causes))
        work, limits, lane_of = work_of(group, workspaces, payloads, held, failures)
        if not work.steps:
            return
        try:
            async with asyncio.timeout_at(call.deadline):
                turn = await _turn(call, claims, len(work.lanes), index)
        except TimeoutError:
            failures |= {number: deadline_passed() for number in work.numbers}
            return

        async def attempt(on_end: OnEnd, sizes: Sequence[int]) -> Ran:
            return await self.device.execute_group(work, call.deadline, turn.slots, on_end, sizes)

        sizes = [work.plans[positions[0]].size_bytes for positions, _ in work.lanes]
        reply, errors = await self._attempt(call, claims, turn, limits, sizes, attempt, lane_of)
        for number, error in zip(work.numbers, errors, strict=True):
            if isinstance(error, DeviceLostError):
                raise error
            if error is not None:
                failures[number] = error
        outcome.replies.append((reply, work.numbers))
        outcome.steps |= {step.number: step.section_bytes for step in group.steps}

    async def _attempt(
        self,
        call: Call,
        claims: Claims,
        turn: Turn,
        workspaces: Sequence[int],
        sizes: Sequence[int],
        attempt: Attempt,
        lane_of: Sequence[int] = _ALONE,
    ) -> Ran:
        """Runs a group; if workspaces are too small and the rest is free, all of its steps begin again together.

        `workspaces` has the workspace bytes that each lane may take, `sizes` about its other bytes, and `lane_of` the
        lane of each step.
        """
        workspaces, refusals = list(workspaces), dict[int, AclgradError]()
        try:
            while True:
                try:
                    made, errors = await attempt(turn.attempt(), workspaces)
                except WorkspaceShortageError as shortage:
                    made, errors = b"", [shortage.with_traceback(None)]
                if not any(errors):
                    return made, errors
                needed: dict[int, int] = {}
                for index, error in enumerate(errors):
                    if isinstance(error, WorkspaceShortageError) and index not in refusals:
                        try:
                            self.admission.check(
                                call.caller, sizes[lane_of[index]] + error.size_bytes, error.size_bytes
                            )
                            needed[index] = error.size_bytes
                        except LimitExceededError as refusal:
                            refusals[index] = refusal.with_traceback(None)
                larger = list(workspaces)
                for index, size_bytes in needed.items():
                    larger[lane_of[index]] = max(larger[lane_of[index]], size_bytes)
                try:
                    if needed and claims.widen(bytes_at_once(larger, turn.slots), max(needed.values())):
                        workspaces = larger
                        for each in errors:
                            if isinstance(each, ServerFaultError):
                                log.warning("%s a step failed and begins again: %s", call.request_id, each)
                        del made, errors
                        continue
                except LimitExceededError as refusal:
                    refusals |= dict.fromkeys(needed, refusal.with_traceback(None))
                return made, [refusals.get(index, each) for index, each in enumerate(errors)]
        finally:
            turn.end()


async def _at_once() -> None: ...


async def _turn(call: Call, claims: Claims, most: int = 1, group: int = 0) -> Turn:
    if call.stage != WAIT:
        call.enter(WAIT)
    turn = await claims.turn(most, group)
    call.enter(RUN)
    return turn
