"""ExecuteOperator: one call whose inputs come with its message."""

from collections.abc import Sequence
from functools import partial

from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.planning import OperatorPlan, check_reply_size
from aclgrad_server.limits import SMALL_BYTES
from aclgrad_server.statistics import RUN, WAIT


async def execute_unary(runner: Runner, shared_memory: SharedMemory, request: bytes, call: Call) -> bytes:
    """Returns the serialized ExecuteOperatorResponse."""
    plan, payloads = runner.planner.read(request)
    call.operator = plan.spec.name
    if plan.uses_shared_memory:
        return await shared_memory.execute(runner, call, plan, payloads)
    return await run_plan(runner, call, plan, payloads)


async def run_plan(runner: Runner, call: Call, plan: OperatorPlan, payloads: Sequence[memoryview]) -> bytes:
    admission, is_small = runner.admission, plan.is_small
    check_reply_size(f"outputs[{plan.outputs[0].name}]", plan.reply_bytes, runner.max_message_bytes)
    memory = await claim_memory(admission, call, plan.size_bytes, plan.output_bytes, is_small)
    try:
        slot = await admission.slot(call.caller, is_small=is_small)
    except BaseException:
        memory.give_back()
        raise
    call.enter(RUN)
    end = partial(give_back, admission, call, is_small, slot, memory, plan.size_bytes, plan.output_bytes)
    return await runner.device.execute(plan, plan.contents(payloads), call.deadline, end)


async def claim_memory(admission: Admission, call: Call, size_bytes: int, reply_bytes: int, is_small: bool) -> Claim:
    """Returns a claim on the device's memory. Memory for a large reply stays claimed until the call ends."""
    call.enter(WAIT)
    memory = await admission.memory(call.caller, size_bytes, is_small=is_small)
    if reply_bytes > SMALL_BYTES:
        try:
            call.at_end((await admission.reply(call.caller, reply_bytes)).give_back)
        except BaseException:
            memory.give_back()
            raise
    return memory


def give_back(
    admission: Admission, call: Call, is_small: bool, slot: Claim, memory: Claim, size_bytes: int, output_bytes: int
) -> None:
    """Gives back what work that has ended held; the memory of its output when the call has ended."""
    admission.ran(slot, is_small)
    memory.give_back(size_bytes - output_bytes)
    call.at_end(partial(memory.give_back, output_bytes))
