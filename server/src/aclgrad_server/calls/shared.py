"""ExecuteOperator with tensors in shared memory: only names and sizes go through the message."""

from collections.abc import Sequence

from aclgrad.tensors import SharedRange, TensorView
from aclgrad.wire.messages import response_of
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.path import Path
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.calls.validation import check_reply_size
from aclgrad_server.plan import OperatorPlan


async def execute_shared(
    path: Path, memory: SharedMemory, call: Call, plan: OperatorPlan, payloads: Sequence[memoryview]
) -> bytes:
    """Returns the serialized ExecuteOperatorResponse; raises an AclgradError if the call is refused or fails.

    The device gets a copy, and the copy is what is checked: the client may change its memory at any time.
    """
    memory.require(call.peer)
    name, target = plan.spec.output.name, plan.output_memory
    if target is None:
        check_reply_size(f"outputs[{name}]", plan.reply_bytes, path.max_message_bytes)
    async with path.staged(call, plan, SharedRange, reply_bytes=plan.output_bytes if target is None else 0) as staged:
        await memory.fill(plan, staged.inputs, call.deadline)
        await path.run(call, plan, payloads, staged)
        if target is None:
            return await staged.output.read(0, plan.output_bytes, plan.reply_prefix, call.deadline)
        await memory.write(name, target, staged.output, call.deadline)
    return response_of(TensorView(name, plan.output, target))
