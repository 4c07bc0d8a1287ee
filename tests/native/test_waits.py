"""How often a device is asked to wait, and what it is not believed: a wait that times out writes to a card's log."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.once

WAIT = 'b"aclrtSynchronizeStreamWithTimeout"'


def hang(count: int = 1, duration_ms: int = 500) -> list[dict[str, Any]]:
    """The first kernels take so long."""
    return [{"kind": "hang", "at": 1, "count": count, "duration_ms": duration_ms}]


ONCE = f"""
device = open_device(steered=True)
device.execute(call, contents)
print(steer.Calls({WAIT}), steer.Late({WAIT}))
print(outcome(device.execute, call, contents, 0.1), steer.Calls({WAIT}), steer.Late({WAIT}))
print("abandoned", device.state().abandoned_count)
while device.state().leased_stream_count:
    device.release_finished()
    time.sleep(0.01)
print("released", steer.Late({WAIT}), device.state().abandoned_count)
"""


def test_each_kernel_is_waited_for_once(run_program: Callable[..., list[str]]) -> None:
    """Both take half a second. The call that is abandoned is polled afterwards, which is no wait."""
    lines = run_program(ONCE, faults=hang(2))
    assert lines == ["1 0", "timeout aclrtSynchronizeStream 1 1", "abandoned 1", "released 1 0"]


LATE_BATCH = f"""
device = open_device(steered=True, stream_limit=4)
_, errors = device.execute_all([(call, contents, b"")] * 4, 0.3)
print(*[error.fault for error in errors], steer.Late({WAIT}))
"""


def test_a_late_batch_waits_no_longer_for_what_is_not_done(run_program: Callable[..., list[str]]) -> None:
    """The first wait takes all the time there is; the other kernels are only asked whether they are done."""
    assert run_program(LATE_BATCH, faults=hang(4, 1000)) == ["timeout timeout timeout timeout 1"]


BESIDE_A_LOOK = """
device = open_device(steered=True)
print(outcome(device.execute, call, contents, 0.1))
steer.Hang(b"aclrtStreamQuery", 1, True)
device.native.release_finished(None)
wait_until(lambda: steer.Hanging(b"aclrtStreamQuery"))
print(outcome(device.execute, call, contents, 0.1), flush=True)
os._exit(0)
"""


def test_a_look_at_abandoned_work_that_hangs_keeps_nobody(run_program: Callable[..., list[str]]) -> None:
    """The second call is also abandoned while the driver does not report the end of the first."""
    assert run_program(BESIDE_A_LOOK, faults=hang(2, 60_000)) == ["timeout aclrtSynchronizeStream"] * 2


UNKNOWN = """
device = open_device(steered=True)
steer.FailWhileBusy(507998)
print(outcome(device.execute, call, contents))
print("abandoned", device.state().abandoned_count)
tensors = [device.stage(16)[0] for _ in range(4)]
for tensor in tensors:
    tensor.write(0, b"another call's..")
wait_until(steer.IsDone)
print(*[tensor.read(0, 16).decode() for tensor in tensors], sep="|")
device.release_finished()
print("abandoned", device.state().abandoned_count)
"""


def test_a_code_that_nobody_knows_ends_no_work(run_program: Callable[..., list[str]]) -> None:
    """The driver answers so while a kernel runs: the kernel's memory goes to no other call before it has ended."""
    lines = run_program(UNKNOWN, host_pointers=False, faults=hang())
    kept = "|".join(["another call's.."] * 4)
    assert lines == ["internal aclrtSynchronizeStream", "abandoned 1", kept, "abandoned 0"]


NO_QUERY = """
device = open_device(steered=True, stream_limit=1)
steer.Fail(b"aclrtStreamQuery", 507051, -1)
print(outcome(device.execute, call, contents, 0.1))
print(len(device.execute(call, contents)))
"""


def test_a_stream_that_answers_no_query_comes_back(run_program: Callable[..., list[str]]) -> None:
    """Only a wait that ends well shows then that it is done."""
    assert run_program(NO_QUERY, faults=hang()) == ["timeout aclrtSynchronizeStream", "16"]


NEITHER = f"""
device = open_device(steered=True, hang_timeout_ms=300)
steer.Fail(b"aclrtStreamQuery", 507051, -1)
steer.Fail({WAIT}, 107003, -1)
print(outcome(device.execute, call, contents))
while not (error := outcome(device.release_finished)):
    time.sleep(0.01)
print(error)
os._exit(0)
"""


def test_a_stream_of_which_nothing_is_known_loses_the_device(run_program: Callable[..., list[str]]) -> None:
    """Its memory cannot be used again; a new process finds out what the card can still do."""
    assert run_program(NEITHER) == ["internal aclrtSynchronizeStream", "device_lost the device"]
