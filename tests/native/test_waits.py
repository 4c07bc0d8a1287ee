"""How often a device is asked to wait, and what it is not believed: a wait that times out writes to a card's log."""

import os
import time

import pytest

from tools.calling import wait_until

from .forked import CALL, CONTENTS, KERNEL_WAIT, hang, open_device, outcome, steer
from .forks import in_fork

pytestmark = pytest.mark.once

WAIT, QUERY = b"aclrtSynchronizeStreamWithTimeout", b"aclrtStreamQuery"
LATE = f"timeout {KERNEL_WAIT}"
UNKNOWN = f"internal {KERNEL_WAIT}"


@in_fork(faults=[hang(2)])
def test_each_kernel_is_waited_for_once() -> None:
    """Both take half a second. The call that is abandoned is polled afterwards, which is no wait."""
    device = open_device(steered=True)
    device.execute(CALL, CONTENTS)
    assert (steer.Calls(WAIT), steer.Late(WAIT)) == (1, 0)
    assert outcome(device.execute, CALL, CONTENTS, 0.1) == LATE
    assert (steer.Calls(WAIT), steer.Late(WAIT), device.state().abandoned_count) == (1, 1, 1)
    while device.state().leased_stream_count:
        device.release_finished()
        time.sleep(0.01)
    assert (steer.Late(WAIT), device.state().abandoned_count) == (1, 0)


@in_fork(faults=[hang(4, 600)])
def test_a_late_batch_waits_no_longer_for_what_is_not_done() -> None:
    """The first wait takes all the time there is; the other kernels are only asked whether they are done."""
    _, errors = open_device(steered=True, stream_limit=4).execute_all([(CALL, CONTENTS, b"")] * 4, 0.3)
    assert [getattr(error, "fault", None) for error in errors] == ["timeout"] * 4
    assert steer.Late(WAIT) == 1


@in_fork(faults=[hang(2, 60_000)])
def test_a_look_at_abandoned_work_that_hangs_keeps_nobody() -> None:
    """The second call is also abandoned while the driver does not report the end of the first."""
    device = open_device(steered=True)
    assert outcome(device.execute, CALL, CONTENTS, 0.1) == LATE
    steer.Hang(QUERY, 1, True)
    device.native.release_finished(None)
    wait_until(lambda: steer.Hanging(QUERY))
    assert outcome(device.execute, CALL, CONTENTS, 0.1) == LATE
    os._exit(0)


@in_fork(host_pointers=False, faults=[hang()])
def test_a_code_that_nobody_knows_ends_no_work() -> None:
    """The driver answers so while a kernel runs: the kernel's memory goes to no other call before it has ended."""
    device, kept = open_device(steered=True), b"another call's.."
    steer.FailWhileBusy(507998)
    assert outcome(device.execute, CALL, CONTENTS) == UNKNOWN
    assert device.state().abandoned_count == 1
    tensors = [device.stage(16)[0] for _ in range(4)]
    for tensor in tensors:
        tensor.write(0, kept)
    wait_until(steer.IsDone)
    assert [tensor.read(0, 16) for tensor in tensors] == [kept] * 4
    device.release_finished()
    assert device.state().abandoned_count == 0


@in_fork(faults=[hang()])
def test_a_stream_that_answers_no_query_comes_back() -> None:
    """Only a wait that ends well shows then that it is done."""
    device = open_device(steered=True, stream_limit=1)
    steer.Fail(QUERY, 507051, -1)
    assert outcome(device.execute, CALL, CONTENTS, 0.1) == LATE
    assert len(device.execute(CALL, CONTENTS)) == 16


@in_fork()
def test_a_stream_of_which_nothing_is_known_loses_the_device() -> None:
    """Its memory cannot be used again; a new process finds out what the card can still do."""
    device = open_device(steered=True, hang_timeout_ms=300)
    steer.Fail(QUERY, 507051, -1)
    steer.Fail(WAIT, 107003, -1)
    assert outcome(device.execute, CALL, CONTENTS) == UNKNOWN
    while not (error := outcome(device.release_finished)):
        time.sleep(0.01)
    assert error == "device_lost the device"
    os._exit(0)
