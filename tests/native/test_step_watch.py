"""A device whose driver hangs is found lost, whichever of its calls does not return, and nothing good is said of it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

pytestmark = pytest.mark.once

UNARY = "device.native.submit(ticket, call, contents, far)"
LARGE = "device.native.submit(ticket, plan((1, 1, 2 << 20), (1, 1, 2 << 20)), [bytes(8 << 20), None], far)"
BATCH = 'device.native.submit_batch(ticket, [(call, contents, b"")] * 3, far)'
STAGE = "device.native.stage(ticket, None, [(16, False)], far)"
# The first half of the ring is copied when it is full.
WRITE = "device.native.write(ticket, [(tensor.native, 0, bytes(5 << 20))], far)"
INTO = "(small,) = device.stage(16); device.native.submit_into(ticket, call, contents, [small.native], far)"
READ = 'device.native.read(ticket, [(tensor.native, 0, b"", 4)], far)'
LATE = "device.native.submit(ticket, call, contents, deadline(0.3))"
STATE = "device.native.state(ticket)"
COPY, BLOCKING_COPY, BLOCK, PINNED = "aclrtMemcpyAsync", "aclrtMemcpy", "aclrtMalloc", "aclrtMallocHost"
LAUNCH, QUERY = "aclnnAdaptiveAvgPool2dBackward", "aclrtStreamQuery"
STEPS: dict[str, tuple[str, str, int]] = {
    # The first kernel is late.
    "query": (LATE, QUERY, 1),
    "copy_in": (UNARY, COPY, 1),
    "copy_out": (UNARY, COPY, 2),
    "blocking_copy_in": (LARGE, BLOCKING_COPY, 1),
    "blocking_copy_out": (LARGE, BLOCKING_COPY, 2),
    "copy_in_of_a_batch": (BATCH, COPY, 3),
    "copy_to_a_tensor": (WRITE, COPY, 1),
    "copy_from_a_tensor": (READ, COPY, 1),
    "block": (UNARY, BLOCK, 1),
    "block_of_a_tensor": (STAGE, BLOCK, 1),
    "pinned_block": (UNARY, PINNED, 1),
    "pinned_block_of_a_tensor": (WRITE, PINNED, 1),
    "fill": (UNARY, "aclrtMemsetAsync", 1),
    "launch": (UNARY, LAUNCH, 1),
    "launch_of_a_batch": (BATCH, LAUNCH, 2),
    "launch_into_a_tensor": (INTO, LAUNCH, 1),
    "context": (UNARY, "aclrtSetCurrentContext", 1),
    # The first one is made when the device opens.
    "stream": (BATCH, "aclrtCreateStream", 1),
    "free": (UNARY, "aclrtFree", 1),
    "memory": (STATE, "aclrtGetMemInfo", 1),
}
"""The work, the function that it hangs in, and in which of its calls of the function."""
SLOW = {"copy": (UNARY, COPY, 1), "block": (UNARY, BLOCK, 1), "launch": (UNARY, LAUNCH, 1)}
"""The same for devices that wait longer for a step than these take."""
NO_RESULT = {"block_of_a_tensor", "free", "memory"}
"""Work whose end has nothing that the device computed or copied."""
HANG_TIMEOUT_S = 1

PROGRAM = """
steps, slow, hang_timeout_s = arguments
library = open_library(steered=True)
far = deadline(3600)
begun = {}

def begin(name, work, function, number, hang_timeout_s):
    device = BlockingDevice(library, pool_pass_through=True, hang_timeout_ms=1000 * hang_timeout_s)
    (tensor,) = device.stage(5 << 20)
    ticket = device.waiting.new_ticket()
    before = steer.Hanging(function.encode())
    begun[name] = device, ticket, time.monotonic()
    steer.Hang(function.encode(), number, False)
    exec(work, globals(), locals())
    wait_until(lambda: steer.Hanging(function.encode()) > before)

def loss(name):
    return outcome(begun[name][0].native.check_steps)

def end(device, ticket):
    end = device.waiting.end(ticket)
    errors = end[1] if isinstance(end, tuple) and len(end) == 2 else [end]
    return " ".join(sorted({getattr(each, "fault", "good") for each in errors}))

for name, step in steps.items():
    begin(name, *step, hang_timeout_s)
durations = {}
while len(durations) < len(steps):
    time.sleep(0.01)
    for name in steps.keys() - durations:
        if loss(name):
            durations[name] = time.monotonic() - begun[name][2]
print(min(durations.values()) >= hang_timeout_s)
for name in steps:
    device, ticket = begun[name][0], begun[name][0].waiting.new_ticket()
    device.native.submit(ticket, call, contents, far)
    print(name, loss(name), end(device, ticket))
for name, step in slow.items():
    begin("slow " + name, *step, 3600)
steer.Release()
for name, (device, ticket, _) in begun.items():
    print(name, end(device, ticket), loss(name))
"""
LOSS = "device_lost the device"


FAST = ("launch", "copy_in", "memory")


def assert_found(run_program: Callable[..., list[str]], names: Collection[str], slow: Mapping[str, Any]) -> None:
    late = {"kind": "hang", "at": 1, "duration_ms": 1500}
    steps = {name: STEPS[name] for name in names}
    lines = run_program(PROGRAM, steps, slow, HANG_TIMEOUT_S, host_pointers=False, faults=[late])
    while_it_hangs, afterwards = lines[1 : len(steps) + 1], lines[len(steps) + 1 :]
    assert lines[0] == "True"
    assert while_it_hangs == [f"{name} {LOSS} device_lost" for name in steps]
    ends = {name: "good" if name in NO_RESULT else "device_lost" for name in steps}
    found_slow = [f"slow {name} good None" for name in slow]
    assert afterwards == [*(f"{name} {end} {LOSS}" for name, end in ends.items()), *found_slow]


# One device in each process: the hang of a function is not to meet another device's call of it.
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in STEPS])
def test_a_step_that_hangs_loses_the_device(run_program: Callable[..., list[str]], name: str) -> None:
    """After the hang timeout, however far the call's deadline is; what ends after that is no result."""
    assert_found(run_program, [name], {})


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_step_of_a_patient_device_is_no_loss(run_program: Callable[..., list[str]], name: str) -> None:
    assert_found(run_program, ["query"], {name: SLOW[name]})


KERNEL = """
device = open_device(hang_timeout_ms=300)
print(outcome(device.execute, call, contents, 0.1))
while not (error := outcome(device.release_finished)):
    time.sleep(0.01)
print(error)
print(outcome(device.native.check_steps))
os._exit(0)
"""


def test_a_kernel_that_does_not_end_loses_the_device(run_program: Callable[..., list[str]]) -> None:
    lines = run_program(KERNEL, faults=[{"kind": "hang", "at": 1}])
    assert lines == ["timeout aclrtSynchronizeStream", LOSS, LOSS]
