"""Runs programs: claims what they take, lets their groups have their turns on the device, and gives everything back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.admission import Admission, Claims, Turn
from aclgrad_server.calls.call import Call, deadline_passed
from aclgrad_server.calls.program import Program, Step, bytes_at_once
from aclgrad_server.devices.device import Device, OnEnd, Read, StagedTensor, Write
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.planning import Planner
from aclgrad_server.statistics import RUN, WAIT

Ran = tuple[Any, Sequence[AclgradError | None]]
"""What came of a group: its outputs, each behind its prefix, and the error of each step that failed."""
Attempt = Callable[[OnEnd, Sequence[int]], Awaitable[Ran]]
"""Runs a group with workspaces of these sizes at most."""


class Transfer(Protocol):
    """Brings and takes the tensors of a step that come and go beside the messages of request and reply."""

    async def bring(self, inputs: Mapping[str, StagedTensor]) -> Sequence[Write]:
        """Fills the inputs; returns what is left to be written just before the step runs."""

    def reads(self, outputs: Sequence[StagedTensor]) -> Sequence[Read]:
        """Returns what is to be read of the outputs just after the step has run."""

    async def take(self, outputs: Sequence[StagedTensor], messages: list[bytes]) -> bytes:
        """Takes the outputs, of which these messages were read, to where they go, and returns the reply."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs on the device."""

    device: Device
    admission: Admission
    planner: Planner
    max_message_bytes: int

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
                needed: dict[int, int] = {}
                for index, error in enumerate(errors):
                    if isinstance(error, WorkspaceShortageError) and index not in refusals:
                        size_bytes = group[index].planned.plan.size_bytes + error.size_bytes
                        try:
                            self.admission.check(call.caller, size_bytes, error.size_bytes)
                            needed[index] = error.size_bytes
                        except LimitExceededError as refusal:
                            refusals[index] = refusal.with_traceback(None)
                if not needed and not refusals:
                    return made, errors
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
