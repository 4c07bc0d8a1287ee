"""Runs programs: claims what they take, lets their groups have their turns on the device, and gives everything back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.admission import Admission, Claims, Turn
from aclgrad_server.calls.call import Call, deadline_passed
from aclgrad_server.calls.program import Step, bytes_at_once, demand_of_groups, demand_of_step, groups_of
from aclgrad_server.devices.device import Device, OnEnd, Read, StagedTensor, Write
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.planning import Planner, check_reply_size
from aclgrad_server.statistics import RUN, WAIT

Result = TypeVar("Result")
Ran = tuple[bytes, list[AclgradError | None]]
"""What came of a group: its outputs, each behind its prefix, and the error of each step that failed."""


class Transfer(Protocol):
    """Brings and takes the tensors of a step that come and go beside the messages of request and reply."""

    @property
    def reply_bytes(self) -> int:
        """How many bytes of messages there are at once beside the tensors."""

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
        """Runs a program of one step, whose tensors are in the messages, and returns the ExecuteOperatorResponse."""
        plan = step.planned.plan
        check_reply_size(f"outputs[{plan.outputs[0].name}]", plan.reply_bytes, self.max_message_bytes)
        claims = await self.admission.claim(call, demand_of_step(step.planned, plan.output_bytes))
        try:
            turn = await claims.turn()
            call.enter(RUN)
            execute = partial(self.device.execute, plan, step.contents(), call.deadline)
            return await self._attempt(claims, turn, plan.workspace.size_bytes, execute)
        finally:
            claims.close()

    async def run_beside(self, call: Call, step: Step, transfer: Transfer) -> bytes:
        """Runs a program of one step with tensors beside the messages, and returns what the transfer makes of it."""
        plan, beside = step.planned.plan, step.planned.beside
        claims = await self.admission.claim(call, demand_of_step(step.planned, transfer.reply_bytes))
        tensors: Sequence[StagedTensor] = ()
        try:
            call.enter(RUN)
            sizes = [(source.nbytes, plan.rules[index] is not None) for index, source in beside]
            sizes += [(each.type.size_bytes, False) for each in plan.outputs]
            tensors = await self.device.stage(sizes, call.deadline, claims.hold())
            outputs = tensors[len(beside) :]
            inputs = {index: tensor for (index, _), tensor in zip(beside, tensors, strict=False)}
            writes = await transfer.bring({plan.spec.inputs[index].name: each for index, each in inputs.items()})
            call.enter(WAIT)
            turn = await claims.turn()
            call.enter(RUN)
            given = plan, step.contents(inputs), outputs, call.deadline
            execute = partial(self.device.execute_into, *given, writes, transfer.reads(outputs))
            # They would keep the last chunks while the answer is sent.
            del writes
            messages = await self._attempt(claims, turn, plan.workspace.size_bytes, execute)
            del execute
            return await transfer.take(outputs, messages)
        finally:
            # An error that is on its way out keeps its frames, and so whatever they refer to.
            for tensor in tensors:
                tensor.close()
            claims.close()

    async def run_all(self, call: Call, steps: Sequence[Step]) -> list[Ran]:
        """Runs steps that do not refer to each other, in groups that take little time; returns what came of each.

        A group has as many streams as it has slots, and others get these between groups.
        """
        streams = self.admission.large.running_limit
        groups = list(groups_of(steps))
        claims = await self.admission.claim(call, demand_of_groups(groups, streams))
        ran: list[Ran] = []
        try:
            for group in groups:
                call.enter(WAIT)
                try:
                    async with asyncio.timeout_at(call.deadline):
                        turn = await claims.turn(len(group))
                except TimeoutError:
                    ran.append((b"", [deadline_passed() for _ in group]))
                    continue
                call.enter(RUN)
                ran.append(await self._attempt_all(call, claims, turn, group, streams))
        finally:
            claims.close()
        return ran

    async def _attempt(
        self, claims: Claims, turn: Turn, workspace_bytes: int, execute: Callable[[OnEnd, int], Awaitable[Result]]
    ) -> Result:
        try:
            while True:
                try:
                    return await execute(turn.attempt(), workspace_bytes)
                except WorkspaceShortageError as shortage:
                    if not claims.widen(shortage.size_bytes, shortage.size_bytes):
                        raise
                    workspace_bytes = shortage.size_bytes
        finally:
            turn.end()

    async def _attempt_all(self, call: Call, claims: Claims, turn: Turn, group: Sequence[Step], streams: int) -> Ran:
        """Runs a group; if workspaces are too small, all of its steps begin again together."""
        plans = [step.planned.plan for step in group]
        workspaces = [plan.workspace.size_bytes for plan in plans]
        calls = [(plan, step.contents(), step.prefix) for plan, step in zip(plans, group, strict=True)]
        refusals: dict[int, AclgradError] = {}
        try:
            while True:
                reply, errors = await self.device.execute_all(
                    calls, call.deadline, turn.slots, turn.attempt(), workspaces
                )
                needed: dict[int, int] = {}
                for index, error in enumerate(errors):
                    if isinstance(error, WorkspaceShortageError) and index not in refusals:
                        size_bytes = plans[index].size_bytes + error.size_bytes
                        try:
                            self.admission.check(call.caller, size_bytes, error.size_bytes)
                            needed[index] = error.size_bytes
                        except LimitExceededError as refusal:
                            refusals[index] = refusal.with_traceback(None)
                larger = [needed.get(index, each) for index, each in enumerate(workspaces)]
                try:
                    begins_again = needed and claims.widen(bytes_at_once(larger, streams), max(needed.values()))
                except LimitExceededError as refusal:
                    refusals |= dict.fromkeys(needed, refusal.with_traceback(None))
                    begins_again = False
                if not begins_again:
                    return reply, [refusals.get(index, each) for index, each in enumerate(errors)]
                workspaces = larger
                del reply, errors
        finally:
            turn.end()
