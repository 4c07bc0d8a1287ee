"""A device whose driver hangs is found lost, whichever of its calls does not return, and nothing good is said of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import shims

pytestmark = [pytest.mark.alone, pytest.mark.once]

HANG_MS = 300
IMPORTS = """
import ctypes, os, sys, time
import aclgrad_native
from tests.native.blocking import BlockingDevice, deadline
from tests.native.pooling import plan
from tests.native.shims import open_with
"""
READY = """
waiting = device.waiting
call = plan((1, 1, 1), (1, 2, 2))
contents = [b"grad", None]
far = deadline(3600)
def loss():
    try:
        device.native.check_steps()
    except aclgrad_native.AclError as error:
        return error.fault
begin = time.monotonic()
"""
START = f"""{IMPORTS}
library = aclgrad_native.open("host", sys.argv[1])
device = BlockingDevice(library, hang_timeout_ms=int(sys.argv[2]))
{READY}"""


@pytest.fixture
def run(run_program: Callable[..., str], tmp_path: Path) -> Callable[..., list[str]]:
    def run(program: str, fault: dict[str, Any], host_pointers: bool, hang_timeout_ms: int = HANG_MS) -> list[str]:
        config = tmp_path / "acl.json"
        config.write_text(json.dumps({"host": {"host_pointers": host_pointers, "faults": [fault]}}))
        return run_program(START + program, str(config), str(hang_timeout_ms)).splitlines()

    return run


# A thread that hangs in the driver for ever cannot be joined, so the process ends without closing the device.
HANGING = """
while not (found := loss()):
    assert time.monotonic() - begin < 30
    time.sleep(0.01)
print(found, time.monotonic() - begin >= 0.3, loss())
ticket = waiting.new_ticket()
device.native.submit(ticket, call, contents, far)
print(waiting.end(ticket).fault)
os._exit(0)
"""
UNARY = "device.native.submit(None, call, contents, far)"
BATCH = 'device.native.submit_batch(None, [(call, contents, b"")] * 3, far)'
STAGE = "device.native.stage(None, None, [(16, False)], far)"
TENSOR = "(tensor,) = device.stage(16)\n"
# The first half of the ring is copied when it is full.
WRITE = "(tensor,) = device.stage(5 << 20)\ntensor.native.write(None, 0, bytes(5 << 20), far)"
INTO = TENSOR + "device.native.submit_into(None, call, contents, tensor.native, far)"
READ = TENSOR + 'tensor.native.read(None, 0, 4, b"", far)'
# Blocks are counted from 1: those of calls on a device that copies, then those of staging.
STEPS: dict[str, tuple[str, str, int, bool]] = {
    "copy_in": (UNARY, "hang_copy", 1, False),
    "copy_out": (UNARY, "hang_copy", 2, False),
    "copy_in_of_a_batch": (BATCH, "hang_copy", 2, False),
    "copy_to_a_tensor": (WRITE, "hang_copy", 1, False),
    "copy_from_a_tensor": (READ, "hang_copy", 1, False),
    "block": (UNARY, "hang_allocation", 1, False),
    "block_of_a_tensor": (STAGE, "hang_allocation", 1, True),
    "pinned_block": (WRITE, "hang_allocation", 2, False),
    "launch": (UNARY, "hang_launch", 1, True),
    "launch_on_copies": (UNARY, "hang_launch", 1, False),
    "launch_of_a_batch": (BATCH, "hang_launch", 2, True),
    "launch_into_a_tensor": (INTO, "hang_launch", 1, True),
}


@pytest.mark.parametrize(("work", "kind", "at", "host_pointers"), STEPS.values(), ids=STEPS)
def test_a_step_that_hangs_loses_the_device(
    run: Callable[..., list[str]], work: str, kind: str, at: int, host_pointers: bool
) -> None:
    """Within the hang timeout, however far the call's deadline is."""
    lines = run(work + HANGING, {"kind": kind, "at": at}, host_pointers)
    assert lines == ["device_lost True device_lost", "device_lost"]


HANGING_FUNCTION = """
std::atomic<bool> hangs{{false}};

extern "C" void Hang() {{ hangs = true; }}

extern "C" int {name}({parameters}) {{
  while (hangs) pause();
  return Real<int({parameters})>("{name}")({arguments});
}}
"""
WITH_SHIM = f"""{IMPORTS}
device = BlockingDevice(open_with(sys.argv[1], sys.argv[2]), pool_pass_through=True, hang_timeout_ms=300)
{READY}
ctypes.CDLL(sys.argv[1]).Hang()
begin = time.monotonic()
"""
LATE = "device.native.submit(None, call, contents, deadline(0.1))"
FUNCTIONS: dict[str, tuple[str, str, str]] = {
    "aclrtSetCurrentContext": ("void* context", "context", UNARY),
    "aclrtCreateStream": ("void** stream", "stream", UNARY),
    "aclrtFree": ("void* address", "address", UNARY),
    "aclrtStreamQuery": ("void* stream, int* status", "stream, status", LATE),
    "aclrtGetMemInfo": ("int kind, size_t* free, size_t* total", "kind, free, total", "device.native.state(None)"),
}
"""What else may hang: parameters, arguments, and the work that calls it."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_function_that_hangs_loses_the_device(run_program: Callable[..., str], name: str, tmp_path: Path) -> None:
    parameters, arguments, work = FUNCTIONS[name]
    source = HANGING_FUNCTION.format(name=name, parameters=parameters, arguments=arguments)
    config = tmp_path / "acl.json"
    faults = [{"kind": "hang", "at": 1, "duration_ms": 1000}] if work is LATE else []
    config.write_text(json.dumps({"host": {"host_pointers": False, "faults": faults}}))
    lines = run_program(WITH_SHIM + work + HANGING, str(shims.build(tmp_path, source)), str(config)).splitlines()
    assert lines == ["device_lost True device_lost", "device_lost"]


SLOW = """
assert len(device.execute(call, contents)) == 16
(tensor,) = device.stage(4)
tensor.write(0, b"grad")
assert tensor.read(0, 4) == b"grad"
print(loss())
"""


@pytest.mark.parametrize(
    ("kind", "host_pointers"), [("hang_copy", False), ("hang_allocation", False), ("hang_launch", True)]
)
def test_a_step_that_is_only_slow_is_forgotten(run: Callable[..., list[str]], kind: str, host_pointers: bool) -> None:
    fault = {"kind": kind, "at": 1, "count": 2, "duration_ms": 200}
    assert run(SLOW, fault, host_pointers, hang_timeout_ms=60_000) == ["None"]


LATE_RESULTS = """
while not loss():
    time.sleep(0.01)
print(waiting.end(ticket).fault)
"""
LATE_BATCH = """
while not loss():
    time.sleep(0.01)
print(*[error.fault if error else None for error in waiting.result(ticket)[1]])
"""
NEW = "ticket = waiting.new_ticket()\n"
LATE_STEPS: dict[str, tuple[str, str, str, int, bool, list[str]]] = {
    "copy": (UNARY, LATE_RESULTS, "hang_copy", 2, False, ["device_lost"]),
    "launch": (UNARY, LATE_RESULTS, "hang_launch", 1, True, ["device_lost"]),
    "batch": (BATCH, LATE_BATCH, "hang_launch", 2, True, ["device_lost device_lost device_lost"]),
    "write": (WRITE, LATE_RESULTS, "hang_copy", 1, False, ["device_lost"]),
    "read": (READ, LATE_RESULTS, "hang_copy", 1, False, ["device_lost"]),
}


@pytest.mark.parametrize(("work", "wait", "kind", "at", "host_pointers", "lines"), LATE_STEPS.values(), ids=LATE_STEPS)
def test_what_ends_after_the_loss_is_no_result(
    run: Callable[..., list[str]], work: str, wait: str, kind: str, at: int, host_pointers: bool, lines: list[str]
) -> None:
    """The step returns at last, as if nothing had been, but the device was given up meanwhile."""
    fault = {"kind": kind, "at": at, "duration_ms": 2000}
    assert run(NEW + work.replace("None", "ticket", 1) + wait, fault, host_pointers) == lines


KERNEL = """
try:
    device.execute(call, contents, timeout_s=0.1)
except aclgrad_native.AclError as error:
    print(error.fault)
try:
    while True:
        device.release_finished()
        time.sleep(0.01)
except aclgrad_native.AclError as error:
    print(error.fault, loss())
os._exit(0)
"""


def test_a_kernel_that_does_not_end_loses_the_device(run: Callable[..., list[str]]) -> None:
    assert run(KERNEL, {"kind": "hang", "at": 1}, True) == ["timeout", "device_lost device_lost"]
