"""ExecuteOperator with tensors in shared memory: nothing but names and sizes goes through the message."""

import os

from aclgrad.tensors import TensorView
from aclgrad.wire.messages import response_of
from aclgrad_server.admission import AtEnd
from aclgrad_server.device import Device, DeviceCall, StagedTensor
from aclgrad_server.executor import Executor, remaining
from aclgrad_server.shared_memory import SharedMemory, write_zeros
from aclgrad_server.staged import device_inputs, gather, gathered_bytes
from aclgrad_server.validation import OperatorPlan


def execute_shared(
    executor: Executor, memory: SharedMemory, plan: OperatorPlan, deadline: float, at_end: AtEnd
) -> bytes:
    """Returns the serialized ExecuteOperatorResponse; raises an AclgradError where the call is refused or fails.

    The device gets a copy, and the copy is what is checked: the client may change its memory at any time.
    """
    reply_bytes = plan.output_bytes if plan.output_memory is None else 0
    with executor.hold(plan.size_bytes + gathered_bytes(plan), deadline, reply_bytes, at_end) as device:
        staging = device.stage(remaining(deadline))
        gathered = gather(staging, plan)
        memory.fill(plan, gathered, remaining(deadline))
        staging.finish(remaining(deadline))
        inputs = device_inputs(device, plan, gathered)
        output = staging.reserve(plan.output_bytes)
        if not plan.is_empty:
            with executor.admission.run(deadline):
                device.execute(DeviceCall(plan, inputs, output), remaining(deadline))
        return _reply(device, memory, plan, output, deadline)


def _reply(device: Device, memory: SharedMemory, plan: OperatorPlan, output: StagedTensor, deadline: float) -> bytes:
    target = plan.output_memory
    name = plan.spec.output.name
    if target is None:
        reply = device.new_reply([(plan.reply_prefix, plan.output_bytes)])
        (part,) = reply.parts()
        if plan.is_empty:
            part.fill_with_zeros()
        else:
            output.read(0, part, remaining(deadline))
        return reply.finish()
    with memory.open(f"output_memory[{name}]", target, os.O_RDWR) as file:
        if plan.is_empty:
            write_zeros(file, target)
        else:
            output.write_file(file, target.offset, remaining(deadline))
    return response_of(TensorView(name, plan.output, target))
