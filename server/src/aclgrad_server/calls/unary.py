"""ExecuteOperator: one call whose inputs come with its message."""

from collections.abc import Awaitable, Sequence
from functools import partial

from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.planning import OperatorPlan, check_reply_size
from aclgrad_server.limits import SMALL_BYTES
from aclgrad_server.statistics import RUN, WAIT


def execute_unary(runner: Runner, shared_memory: SharedMemory, request: bytes, call: Call) -> Awaitable[bytes]:
    """Returns the serialized ExecuteOperatorResponse."""
    plan, payloads = runner.planner.read(request)
    call.operator = plan.spec.name
    if plan.uses_shared_memory:
        return shared_memory.execute(runner, call, plan, payloads)
    return run_plan(runner, call, plan, payloads)


async def run_plan(runner: Runner, call: Call, plan: OperatorPlan, payloads: Sequence[memoryview]) -> bytes:
    admission, is_small = runner.admission, plan.is_small
    check_reply_size(f"outputs[{plan.outputs[0].name}]", plan.reply_bytes, runner.max_message_bytes)
    call.enter(WAIT)
    memory = await admission.memory(call.caller, plan.size_bytes, is_small=is_small)
    try:
        if plan.output_bytes > SMALL_BYTES:
            await claim_reply(admission, call, plan.output_bytes)
        slot = await admission.slot(call.caller, is_small=is_small)
    except BaseException:
        memory.give_back()
        raise
    call.enter(RUN)
    end = partial(give_back, admission, call, is_small, slot, memory, plan.size_bytes, plan.output_bytes)
    return await runner.device.execute(plan, plan.contents(payloads), call.deadline, end)


async def claim_reply(admission: Admission, call: Call, size_bytes: int) -> None:
    """Claims memory of the process for a reply until the call ends."""
    call.at_end((await admission.reply(call.caller, size_bytes)).give_back)


def give_back(
    admission: Admission, call: Call, is_small: bool, slot: Claim, memory: Claim, size_bytes: int, output_bytes: int
) -> None:
    """Gives back what work that has ended held; the memory of its output when the call has ended."""
    admission.ran(slot, is_small)
    memory.give_back(size_bytes - output_bytes)
    call.at_end(partial(memory.give_back, output_bytes))
