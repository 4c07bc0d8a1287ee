"""The one way of every call, wherever its inputs come from and its output goes: plan, admit, inputs, run, reply."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from aclgrad.errors import AclgradError
from aclgrad.tensors import Announced
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.planning import Planner
from aclgrad_server.devices.device import Device, OnEnd, PlannedCall
from aclgrad_server.devices.staged import StagedTensor
from aclgrad_server.limits import SMALL_BYTES
from aclgrad_server.plan import OperatorPlan, Source, check_reply_size
from aclgrad_server.statistics.calls import RUN, WAIT


@dataclass(frozen=True, slots=True)
class Staged:
    """The tensors of one call that come or go in pieces: inputs by name, and the output."""

    device: Device
    inputs: dict[str, StagedTensor]
    output: StagedTensor


@dataclass(frozen=True, slots=True)
class Path:
    """Runs plans on the devices."""

    devices: Sequence[Device]
    admission: Admission
    planner: Planner
    max_message_bytes: int

    async def unary(self, call: Call, plan: OperatorPlan, payloads: Sequence[memoryview]) -> bytes:
        """Returns the serialized ExecuteOperatorResponse of a call whose inputs came with its message."""
        check_reply_size(f"outputs[{plan.spec.output.name}]", plan.reply_bytes, self.max_message_bytes)
        device, end = await self._admit(call, plan.size_bytes, plan.output_bytes)
        return await device.execute(plan, plan.contents(payloads), call.deadline, end)

    async def batch(self, call: Call, calls: Sequence[PlannedCall]) -> tuple[Device, bytes, list[AclgradError | None]]:
        """Runs plans in one place; returns their outputs behind their prefixes, and the error of each that failed."""
        size_bytes = sum(plan.size_bytes for plan, _, _ in calls)
        output_bytes = sum(plan.output_bytes for plan, _, _ in calls)
        device, end = await self._admit(call, size_bytes, output_bytes)
        return device, *await device.execute_all(calls, call.deadline, end)

    @asynccontextmanager
    async def staged(
        self, call: Call, plan: OperatorPlan, source: Source, reply_bytes: int = 0
    ) -> AsyncIterator[Staged]:
        """Yields memory for inputs from the source and the output; `reply_bytes` stay admitted until the call ends."""
        size_bytes, waits_for_client = plan.staged_bytes(source), source is Announced
        call.enter(WAIT)
        index, memory = await self.admission.memory(call.caller, size_bytes, waits_for_client)
        call.enter(RUN)
        device = self.devices[index]
        inputs = plan.inputs_in(source)
        sizes = [*((tensor.type.size_bytes, on_host) for tensor, on_host in inputs), (plan.output_bytes, False)]
        tensors = await device.stage(sizes, call.deadline, partial(_keep_until_end, call, memory, reply_bytes))
        names = [tensor.name for tensor, _ in inputs]
        try:
            yield Staged(device, dict(zip(names, tensors, strict=False)), tensors[-1])
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
        await staged.device.execute_into(plan, contents, staged.output, call.deadline, place.give_back)

    async def _admit(self, call: Call, size_bytes: int, output_bytes: int) -> tuple[Device, OnEnd]:
        """Returns a device with memory and a place for the call, and what gives back both, but the output's memory."""
        claims: list[Claim] = []
        call.enter(WAIT)
        try:
            index, memory = await self.admission.memory(call.caller, size_bytes)
            claims.append(memory)
            if output_bytes > SMALL_BYTES:
                claims.append(await self.admission.reply(call.caller, output_bytes))
                call.at_end(claims[-1].give_back)
            place = await self.admission.place(call.caller)
        except BaseException:
            for claim in claims:
                claim.give_back()
            raise

        def end() -> None:
            place.give_back()
            _keep_until_end(call, memory, output_bytes)

        call.enter(RUN)
        return self.devices[index], end


def _keep_until_end(call: Call, memory: Claim, size_bytes: int) -> None:
    """Gives back all of the memory but so much, and the rest when the call has ended."""
    memory.give_back(memory.units - size_bytes)
    call.at_end(memory.give_back)
