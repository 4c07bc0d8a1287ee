"""ExecuteOperator: one call whose inputs come with its message."""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import NamedTuple

from aclgrad_server.calls.admission import Admission, Attempts
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
    admission, is_small, workspace_bytes = runner.admission, plan.is_small, plan.workspace.size_bytes
    size_bytes, encoded_bytes = plan.size_bytes + workspace_bytes, plan.encoded_bytes
    takes_little = is_small and size_bytes + encoded_bytes <= SMALL_BYTES
    check_reply_size(f"outputs[{plan.outputs[0].name}]", plan.reply_bytes, runner.max_message_bytes)
    call.enter(WAIT)
    memory, encoded = await admission.tensors(
        call.caller, size_bytes, encoded_bytes, is_small=takes_little, workspace_bytes=workspace_bytes
    )
    try:
        if plan.output_bytes > SMALL_BYTES:
            await claim_reply(admission, call, plan.output_bytes)
        slot = await admission.slot(call.caller, is_small=is_small)
    except BaseException:
        memory.give_back()
        if encoded is not None:
            encoded.give_back()
        raise
    call.enter(RUN)
    held = Held(size_bytes, plan.output_bytes, encoded_bytes)
    end = partial(give_back, admission, call, is_small, slot, memory, encoded, held)
    contents, execute, deadline = plan.contents(payloads), runner.device.execute, call.deadline
    with Attempts(admission, call.caller, size_bytes, workspace_bytes, takes_little, end) as attempts:
        return await attempts.run(partial(execute, plan, contents, deadline))


async def claim_reply(admission: Admission, call: Call, size_bytes: int) -> None:
    """Claims memory of the process for a reply until the call ends."""
    call.at_end((await admission.reply(call.caller, size_bytes)).give_back)


class Held(NamedTuple):
    """What work holds of claims: of the device, for outputs among that, and of the process."""

    size_bytes: int
    output_bytes: int
    encoded_bytes: int


def give_back(
    admission: Admission, call: Call, is_small: bool, slot: Claim, memory: Claim, encoded: Claim | None, held: Held
) -> None:
    """Gives back what work that has ended held; the memory of its output when the call has ended."""
    admission.ran(slot, is_small)
    memory.give_back(held.size_bytes - held.output_bytes)
    call.at_end(partial(memory.give_back, held.output_bytes))
    # Without a claim of their own, they count as tensors.
    (encoded or memory).give_back(held.encoded_bytes)
