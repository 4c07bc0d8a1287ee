"""What all kinds of calls run with, and how tensors that come or go in pieces do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from aclgrad.tensors import Announced
from aclgrad_server.calls.admission import Admission, Attempts
from aclgrad_server.calls.call import Call
from aclgrad_server.devices.device import Device, Read, StagedTensor, Write
from aclgrad_server.devices.planning import OperatorPlan, Planner, Source
from aclgrad_server.statistics import RUN, WAIT


@dataclass(frozen=True, slots=True)
class Staged:
    """The tensors of one call that come or go in pieces: inputs by name, and the outputs."""

    inputs: dict[str, StagedTensor]
    outputs: Sequence[StagedTensor]
    workspace_bytes: int
    """What the call has claimed for it, together with the tensors."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs plans on the device."""

    device: Device
    admission: Admission
    planner: Planner
    max_message_bytes: int

    @asynccontextmanager
    async def staged(
        self, call: Call, plan: OperatorPlan, source: Source, reply_bytes: int = 0
    ) -> AsyncIterator[Staged]:
        """Yields memory for inputs from the source and the outputs; `reply_bytes` stay admitted until the call ends."""
        workspace_bytes, checked_bytes = plan.workspace.size_bytes, plan.checked_bytes(source)
        size_bytes = plan.size_bytes + workspace_bytes
        waits_for_client = source is Announced
        claims = await self.admission.claim(call, size_bytes, checked_bytes, workspace_bytes, False, waits_for_client)
        call.enter(RUN)
        inputs = plan.inputs_in(source)
        sizes = [(tensor.type.size_bytes, on_host) for tensor, on_host in inputs]
        sizes += [(each.type.size_bytes, False) for each in plan.outputs]
        end = partial(claims.give_back, size_bytes, checked_bytes, reply_bytes)
        tensors = await self.device.stage(sizes, call.deadline, end)
        names = [tensor.name for tensor, _ in inputs]
        try:
            yield Staged(dict(zip(names, tensors, strict=False)), tensors[len(names) :], workspace_bytes)
        finally:
            # An error that is on its way out keeps its frames, and so whatever they refer to.
            for tensor in tensors:
                tensor.close()

    async def run(
        self,
        call: Call,
        plan: OperatorPlan,
        payloads: Sequence[memoryview],
        staged: Staged,
        writes: Sequence[Write] = (),
        reads: Sequence[Read] = (),
    ) -> list[bytes]:
        """Runs a plan whose inputs these writes complete, keeps the outputs, and returns what the reads make of them.

        All of it is one piece of work, for which one thread is woken.
        """
        call.enter(WAIT)
        slot = await self.admission.slot(call.caller)
        call.enter(RUN)
        contents = plan.contents(payloads, staged.inputs)
        given, execute = (plan, contents, staged.outputs, call.deadline), self.device.execute_into
        size_bytes, workspace_bytes = plan.size_bytes + staged.workspace_bytes, staged.workspace_bytes
        with Attempts(self.admission, call.caller, size_bytes, workspace_bytes, False, slot.give_back) as attempts:
            return await attempts.run(lambda on_end, limit: execute(*given, on_end, writes, reads, limit))
