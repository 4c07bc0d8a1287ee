"""A device whose driver hangs is found lost, whichever of its calls does not return, and nothing good is said of it."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from aclgrad_native import StagedTensor
from tools.calling import wait_until

from .blocking import BlockingDevice, alone, deadline, lane
from .forked import CALL, CONTENTS, KERNEL_WAIT, hang, open_device, open_library, outcome, steer
from .forks import in_fork
from .pooling import plan

FAR = 3600.0
SHAPE = (1, 1, 2 << 20)


def work_on(tensor: StagedTensor, target: StagedTensor) -> dict[str, tuple[Any, ...]]:
    """Returns methods of a device, and what they take behind a ticket."""
    end = deadline(FAR)
    return {
        "unary": ("submit", CALL, CONTENTS, end),
        "large": ("submit", plan(SHAPE, SHAPE), [bytes(8 << 20), None], end),
        "group": ("submit_group", [alone(CALL, CONTENTS)] * 3, [lane(each) for each in range(3)], end),
        "stage": ("stage", None, [(16, False)], end),
        # The first half of the ring is copied when it is full.
        "write": ("write", [(tensor, 0, bytes(5 << 20))], end),
        "into": ("submit_group", [alone(CALL, CONTENTS, sinks=[(target, False)])], [lane(0)], end),
        "read": ("read", [(tensor, 0, b"", 4)], end),
        "late": ("submit", CALL, CONTENTS, deadline(0.3)),
        "state": ("state",),
    }


COPY, BLOCKING_COPY, BLOCK, PINNED = "aclrtMemcpyAsync", "aclrtMemcpy", "aclrtMalloc", "aclrtMallocHost"
LAUNCH, QUERY = "aclnnAdaptiveAvgPool2dBackward", "aclrtStreamQuery"
STEPS: dict[str, tuple[str, str, int]] = {
    # The first kernel is late.
    "query": ("late", QUERY, 1),
    "copy_in": ("unary", COPY, 1),
    "copy_out": ("unary", COPY, 2),
    "blocking_copy_in": ("large", BLOCKING_COPY, 1),
    "blocking_copy_out": ("large", BLOCKING_COPY, 2),
    "copy_in_of_a_group": ("group", COPY, 3),
    "copy_to_a_tensor": ("write", COPY, 1),
    "copy_from_a_tensor": ("read", COPY, 1),
    "block": ("unary", BLOCK, 1),
    "block_of_a_tensor": ("stage", BLOCK, 1),
    "pinned_block": ("unary", PINNED, 1),
    "pinned_block_of_a_tensor": ("write", PINNED, 1),
    "fill": ("unary", "aclrtMemsetAsync", 1),
    "launch": ("unary", LAUNCH, 1),
    "launch_of_a_group": ("group", LAUNCH, 2),
    "launch_into_a_tensor": ("into", LAUNCH, 1),
    "context": ("unary", "aclrtSetCurrentContext", 1),
    # The first one is made when the device opens.
    "stream": ("group", "aclrtCreateStream", 1),
    "free": ("unary", "aclrtFree", 1),
    "memory": ("state", "aclrtGetMemInfo", 1),
}
"""The work, the function that it hangs in, and in which of its calls of the function."""
NO_RESULT = {"block_of_a_tensor", "free", "memory"}
"""Work whose end has nothing that the device computed or copied."""
HANG_TIMEOUT_MS = 1000

LOSS = "device_lost the device"
FAST = ("launch", "copy_in", "memory")


def wait_for_loss(look: Callable[[], Any]) -> None:
    while not (error := outcome(look)):
        time.sleep(0.01)
    assert error == LOSS


def fault_of_end(device: BlockingDevice, ticket: int) -> set[str]:
    end = device.waiting.end(ticket)
    errors = end[1] if isinstance(end, tuple) and len(end) == 3 else [end]
    return {getattr(each, "fault", "good") for each in errors}


# One device in each process: the hang of a function is not to meet another device's call of it.
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in STEPS])
@in_fork(host_pointers=False, faults=[hang(duration_ms=1500)])
def test_a_step_that_hangs_loses_the_device(name: str) -> None:
    """After the hang timeout, however far the call's deadline is."""
    work, function, number = STEPS[name]
    library = open_library(steered=True)
    device = BlockingDevice(library, pool_pass_through=True, hang_timeout_ms=HANG_TIMEOUT_MS)
    (tensor,), (target,) = device.stage(5 << 20), device.stage(16)
    ticket, start = device.waiting.new_ticket(), time.monotonic()
    steer.Hang(function.encode(), number, False)
    method, *arguments = work_on(tensor.native, target.native)[work]
    getattr(device.native, method)(ticket, *arguments)
    wait_until(lambda: steer.Hanging(function.encode()))
    wait_for_loss(device.native.check_steps)
    assert time.monotonic() - start >= HANG_TIMEOUT_MS / 1000
    assert fault_of_end(device, device.submit(CALL, CONTENTS, FAR)) == {"device_lost"}
    steer.Release()
    # What ends after the loss is no result.
    assert fault_of_end(device, ticket) == {"good" if name in NO_RESULT else "device_lost"}
    assert outcome(device.native.check_steps) == LOSS


@in_fork(faults=[{"kind": "hang", "at": 1}])
def test_a_kernel_that_does_not_end_loses_the_device() -> None:
    device = open_device(hang_timeout_ms=300)
    assert outcome(device.execute, CALL, CONTENTS, 0.1) == f"timeout {KERNEL_WAIT}"
    wait_for_loss(device.release_finished)
    assert outcome(device.native.check_steps) == LOSS
    os._exit(0)
