"""ExecuteOperator: one call whose inputs come with its message."""

from collections.abc import Awaitable, Sequence
from functools import partial

from aclgrad_server.calls.admission import Attempts
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.planning import OperatorPlan, check_reply_size
from aclgrad_server.limits import SMALL_BYTES
from aclgrad_server.statistics import RUN


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
    claims = await admission.claim(call, size_bytes, encoded_bytes, workspace_bytes, takes_little)
    try:
        if plan.output_bytes > SMALL_BYTES:
            await admission.claim_reply(call, plan.output_bytes)
        slot = await admission.slot(call.caller, is_small=is_small)
    except BaseException:
        claims.give_back(size_bytes, encoded_bytes)
        raise
    call.enter(RUN)

    def end() -> None:
        admission.ran(slot, is_small)
        claims.give_back(size_bytes, encoded_bytes, plan.output_bytes)

    contents, execute, deadline = plan.contents(payloads), runner.device.execute, call.deadline
    with Attempts(admission, call.caller, size_bytes, workspace_bytes, takes_little, end) as attempts:
        return await attempts.run(partial(execute, plan, contents, deadline))
