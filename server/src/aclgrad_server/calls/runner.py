"""What the server runs: programs of steps in order, each one operator, whose groups have their turns on the device."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final, Protocol

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.admission import Admission, Claims, Demand, Turn
from aclgrad_server.calls.call import Call, deadline_passed
from aclgrad_server.devices.device import Device, OnEnd, Read, StagedTensor, Write
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.planning import PlannedStep, Planner, check_reply_size
from aclgrad_server.limits import GROUP_S, SMALL_BYTES, SMALL_S
from aclgrad_server.statistics import RUN, WAIT

_NOTHING: Final[Mapping[int, Any]] = {}
Ran = tuple[Any, Sequence[AclgradError | None]]
"""What came of a group: its outputs, each behind its prefix, and the error of each step that failed."""
Attempt = Callable[[OnEnd, Sequence[int]], Awaitable[Ran]]
"""Runs a group with workspaces of these sizes at most."""


class Step:
    """One step of a program: what is planned of it, and the payloads of its message."""

    __slots__ = ("payloads", "planned", "prefix", "workspace_bytes")

    def __init__(self, planned: PlannedStep, payloads: Sequence[memoryview], prefix: bytes = b"") -> None:
        """Takes what stands before its outputs in the reply."""
        self.planned, self.payloads, self.prefix = planned, payloads, prefix
        self.workspace_bytes = planned.plan.workspace.size_bytes
        """What it may take: another step of its form may learn of a larger one before it runs."""

    def contents(self, beside: Mapping[int, Any] = _NOTHING) -> list[Any]:
        """Returns the bytes of each input; `beside` has, by position, what holds those that come beside the message."""
        return [
            None if each is None else each.content(self.payloads, beside.get(index))
            for index, each in enumerate(self.planned.sources)
        ]


@dataclass(slots=True)
class Program:
    """Groups of steps in order. A step has sources and sinks; of several, each has its own result or status."""

    groups: Sequence[Sequence[Step]]
    demand: Demand
    streams: int  # how many steps of a group run at once, at most

    @classmethod
    def of_step(cls, step: Step, reply_bytes: int) -> "Program":
        """Returns a program of one step, whose error is the program's."""
        planned, plan, workspace_bytes = step.planned, step.planned.plan, step.workspace_bytes
        process_bytes = plan.encoded_bytes + planned.checked_bytes
        is_light = plan.size_bytes + process_bytes <= SMALL_BYTES and plan.seconds <= SMALL_S
        demand = Demand(
            (plan.size_bytes + workspace_bytes,),
            (process_bytes,),
            (0, planned.replied_bytes),
            workspace_bytes,
            reply_bytes,
            plan.seconds,
            is_light and not planned.is_beside,
            planned.waits_for_client,
        )
        return cls(((step,),), demand, 1)

    @classmethod
    def of_steps(cls, steps: Sequence[Step], streams: int) -> "Program":
        """Returns a program of steps that do not refer to each other, in groups that take about `GROUP_S`.

        Inputs are there until their group has ended, outputs from their group on, and everything else while it runs.
        All groups have the same workspaces: one begins when the device is done with the one before, or never.
        """
        groups = list(_groups(steps))
        by_group = [[step.planned for step in group] for group in groups]
        arriving = [sum(each.arriving_bytes for each in group) for group in by_group]
        replied = [0, *accumulate(sum(each.replied_bytes for each in group) for group in by_group)]
        sizes = [sum(each.plan.size_bytes for each in group) for group in by_group]
        encoded = [sum(each.plan.encoded_bytes for each in group) for group in by_group]
        # Before a group begins, the inputs of those after it are there, too, and the outputs of those before it.
        later = [sum(arriving) - here for here in accumulate(arriving)]
        workspace_bytes = max(bytes_at_once([step.workspace_bytes for step in group], streams) for group in groups)
        device = [sum(each) + workspace_bytes for each in zip(sizes, later, replied[:-1], strict=True)]
        # Outputs may have to be joined, with those of other groups or with statuses.
        reply_bytes = replied[-1] * min(len(steps), 2)
        seconds = sum(step.planned.plan.seconds for step in steps)
        is_small = sum(sizes) + sum(encoded) <= SMALL_BYTES and seconds <= SMALL_S
        demand = Demand(device, encoded, replied, workspace_bytes, reply_bytes, seconds, is_small)
        return cls(groups, demand, streams)


def _groups(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Yields steps that take about `GROUP_S` together, and single ones that take longer."""
    start, seconds = 0, 0.0
    for number, step in enumerate(steps):
        step_s = step.planned.plan.seconds
        if number > start and seconds + step_s > GROUP_S:
            yield steps[start:number]
            start, seconds = number, 0.0
        seconds += step_s
    yield steps[start:]


def bytes_at_once(workspaces: Sequence[int], count: int) -> int:
    """Returns what the workspaces of so many steps take at most."""
    return sum(sorted(workspaces)[-count:])


class Transfer(Protocol):
    """Brings and takes the tensors of a step that come and go beside the messages of request and reply."""

    async def bring(self, inputs: Mapping[str, StagedTensor]) -> Sequence[Write]:
        """Fills the inputs; returns what is left to be written just before the step runs."""

    def reads(self, outputs: Sequence[StagedTensor]) -> Sequence[Read]:
        """Returns what is to be read of the outputs just after the step has run."""

    async def take(self, outputs: Sequence[StagedTensor], messages: list[bytes]) -> bytes:
        """Takes the outputs, of which these messages were read, to where they go, and returns the reply."""


TransferOf = Callable[[Call, PlannedStep], Transfer]
"""Returns the transfer of a step; raises an AclgradError if the client may have none."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs on the device."""

    device: Device
    admission: Admission
    planner: Planner
    max_message_bytes: int

    def execute(self, transfer_of: TransferOf, request: bytes, call: Call) -> Awaitable[bytes]:
        """Runs an ExecuteOperatorRequest and returns its response; `transfer_of` is for tensors in shared memory."""
        planned, payloads = self.planner.read(request)
        plan, step = planned.plan, Step(planned, payloads)
        call.operator = plan.spec.name
        transfer = transfer_of(call, planned) if planned.is_beside else None
        check_reply_size(f"outputs[{plan.outputs[0].name}]", planned.message_bytes, self.max_message_bytes)
        if transfer is None:
            return self.run_step(call, step)
        return self.run_beside(call, step, transfer, planned.replied_bytes)

    async def run_step(self, call: Call, step: Step) -> bytes:
        """Runs one step, whose tensors are in the messages, and returns the ExecuteOperatorResponse."""
        plan = step.planned.plan
        program = Program.of_step(step, plan.output_bytes)
        claims = await self.admission.claim(call, program.demand)
        try:
            execute = partial(self.device.execute, plan, step.contents(), call.deadline)
            reply: bytes = await self._run_alone(call, claims, program, execute)
            return reply
        finally:
            claims.close()

    async def run_beside(self, call: Call, step: Step, transfer: Transfer, reply_bytes: int) -> bytes:
        """Runs one step with tensors beside the messages, and returns what the transfer makes of it."""
        plan, beside = step.planned.plan, step.planned.beside
        program = Program.of_step(step, reply_bytes)
        claims = await self.admission.claim(call, program.demand)
        tensors: Sequence[StagedTensor] = ()
        try:
            call.enter(RUN)
            sizes = [(source.nbytes, plan.rules[index] is not None) for index, source in beside]
            sizes += [(each.type.size_bytes, False) for each in plan.outputs]
            tensors = await self.device.stage(sizes, call.deadline, claims.hold())
            outputs = tensors[len(beside) :]
            inputs = {index: tensor for (index, _), tensor in zip(beside, tensors, strict=False)}
            writes = await transfer.bring({plan.spec.inputs[index].name: each for index, each in inputs.items()})
            given = plan, step.contents(inputs), outputs, call.deadline
            execute = partial(self.device.execute_into, *given, writes, transfer.reads(outputs))
            messages = await self._run_alone(call, claims, program, execute)
            # The last chunks would be kept while the answer is sent.
            del writes, execute
            return await transfer.take(outputs, messages)
        finally:
            # An error that is on its way out keeps its frames, and so whatever they refer to.
            for tensor in tensors:
                tensor.close()
            claims.close()

    async def run_all(self, call: Call, steps: Sequence[Step]) -> list[Ran]:
        """Runs steps that do not refer to each other; returns what came of each group.

        A group has as many streams as it has slots, and others get these between groups.
        """
        program = Program.of_steps(steps, self.admission.large.running_limit)
        claims = await self.admission.claim(call, program.demand)
        ran: list[Ran] = []
        try:
            for group in program.groups:
                try:
                    async with asyncio.timeout_at(call.deadline):
                        turn = await self._turn(call, claims, len(group))
                except TimeoutError:
                    ran.append((b"", [deadline_passed() for _ in group]))
                    continue
                calls = [(step.planned.plan, step.contents(), step.prefix) for step in group]
                attempt = partial(self.device.execute_all, calls, call.deadline, turn.slots)
                ran.append(await self._attempt(call, claims, program, group, turn, attempt))
        finally:
            claims.close()
        return ran

    async def _run_alone(
        self, call: Call, claims: Claims, program: Program, execute: Callable[[OnEnd, int], Awaitable[Any]]
    ) -> Any:
        """Returns what a program of one step has made; raises its error."""

        async def attempt(on_end: OnEnd, workspaces: Sequence[int]) -> Ran:
            return await execute(on_end, workspaces[0]), (None,)

        turn = await self._turn(call, claims)
        made, (error,) = await self._attempt(call, claims, program, program.groups[0], turn, attempt)
        if error is not None:
            raise error
        return made

    async def _turn(self, call: Call, claims: Claims, most: int = 1) -> Turn:
        if call.stage != WAIT:
            call.enter(WAIT)
        turn = await claims.turn(most)
        call.enter(RUN)
        return turn

    async def _attempt(
        self, call: Call, claims: Claims, program: Program, group: Sequence[Step], turn: Turn, attempt: Attempt
    ) -> Ran:
        """Runs a group; if workspaces are too small, all of its steps begin again together, if that is free at once."""
        workspaces, refusals = [step.workspace_bytes for step in group], dict[int, AclgradError]()
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
                        size_bytes = group[index].planned.plan.size_bytes + error.size_bytes
                        try:
                            self.admission.check(call.caller, size_bytes, error.size_bytes)
                            needed[index] = error.size_bytes
                        except LimitExceededError as refusal:
                            refusals[index] = refusal.with_traceback(None)
                larger = [needed.get(index, each) for index, each in enumerate(workspaces)]
                try:
                    if needed and claims.widen(bytes_at_once(larger, program.streams), max(needed.values())):
                        workspaces = larger
                        del made, errors
                        continue
                except LimitExceededError as refusal:
                    refusals |= dict.fromkeys(needed, refusal.with_traceback(None))
                return made, [refusals.get(index, each) for index, each in enumerate(errors)]
        finally:
            turn.end()
