"""Cancelled and late calls do not begin; how often a device is asked to wait, and what it is not believed.

A wait that times out writes to a card's log.
"""

import math
import os
import time

import numpy as np
import pytest

from aclgrad_native import AclError, IndexCheck, Input
from tools.calling import wait_until

from .blocking import BlockingDevice, alone, deadline
from .forked import CALL, CONTENTS, KERNEL_WAIT, hang, open_device, outcome, steer
from .forks import in_fork
from .pooling import FLOAT32, plan, pool

TIMEOUT_CODE = 507046
LATE = f"timeout {KERNEL_WAIT}"
ONE = np.ones((1, 1, 1), np.float32)
STEP = alone(CALL, CONTENTS)


@in_fork(faults=[hang()])
def test_a_call_that_is_cancelled_before_it_begins() -> None:
    """One that has begun goes on."""
    device = open_device(stream_limit=1)
    tickets = [device.waiting.new_ticket() for _ in range(2)]
    first = device.native.submit(tickets[0], CALL, CONTENTS, deadline(60))
    wait_until(lambda: device.state().leased_stream_count == 1)
    device.native.submit(tickets[1], CALL, CONTENTS, deadline(60)).cancel()
    group, cancellation = device.submit_group([STEP] * 2)
    cancellation.cancel()
    first.cancel()
    assert len(device.waiting.result(tickets[0])) == 16
    first.cancel()
    error = device.waiting.end(tickets[1])
    assert (error.code, error.call, error.detail) == (TIMEOUT_CODE, "the call", "its client has gone")
    assert [each.code for each in device.waiting.result(group)[1]] == [TIMEOUT_CODE] * 2


@pytest.mark.parametrize("is_late", [False, True], ids=["cancelled", "late"])
@in_fork(faults=[hang()])
def test_a_group_that_nobody_waits_for_begins_no_further_lane(is_late: bool) -> None:
    """If it is cancelled, lanes that have the two streams go on. If it is late, so is the first one itself."""
    device = open_device()
    ticket, cancellation = device.submit_group([STEP] * 6, timeout_s=0.2 if is_late else 60)
    if not is_late:
        wait_until(lambda: device.state().leased_stream_count == 2)
        cancellation.cancel()
    _, errors, _ = device.waiting.result(ticket)
    ends = [error and (error.code, error.call) for error in errors]
    assert ends[0] == ((TIMEOUT_CODE, KERNEL_WAIT) if is_late else None)
    assert ends.count((TIMEOUT_CODE, "the group")) == 4
    if not is_late:
        device.assert_idle()


@in_fork(faults=[hang()])
def test_a_call_that_gets_no_stream_does_not_begin() -> None:
    """The abandoned first one keeps the only stream."""
    device = open_device(stream_limit=1)
    for end in (LATE, "not_begun the wait for a stream"):
        assert outcome(device.execute, CALL, CONTENTS, 0.1) == end


@in_fork(host_pointers=False, faults=[{"kind": "slow_copy", "at": 1, "duration_ms": 300}])
def test_a_kernel_does_not_begin_after_the_deadline() -> None:
    """The copy of its input, which is too large for pinned memory, takes too long."""
    device, shape = open_device(stream_limit=1), (1, 1, 2 << 20)
    with pytest.raises(AclError, match="its deadline passed before its kernel began") as caught:
        device.execute(plan(shape, shape), [bytes(8 << 20), None], 0.1)
    assert caught.value.fault == "not_begun"
    assert device.state().abandoned_count == 0
    device.assert_idle()


CHECKED = plan((1, 1, 1), (1, 2, 2), inputs=[Input((1, 1, 1), FLOAT32, check=IndexCheck(0)), Input((1, 2, 2), 0)])
"""Its values break their check, which would be the error of a call that begins."""


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, -1e300, -math.inf, math.nan], ids=str)
def test_a_call_whose_deadline_passed_before_it_begins(device: BlockingDevice, timeout_s: float) -> None:
    with pytest.raises(AclError) as caught:
        device.execute(CHECKED, [bytes(8), None], timeout_s)
    assert (caught.value.code, caught.value.fault, caught.value.call) == (TIMEOUT_CODE, "not_begun", "the call")
    assert "deadline" in caught.value.detail
    _, errors = device.execute_all([(CHECKED, [bytes(8), None], b"")] * 3, timeout_s)
    assert [getattr(error, "code", error) for error in errors] == [TIMEOUT_CODE] * 3
    (target,) = device.stage(16)
    with pytest.raises(AclError, match="deadline"):
        device.execute_into(CALL, CONTENTS, target, timeout_s)
    device.native.check_steps()


@pytest.mark.parametrize("timeout_s", [1e9, 1e300, math.inf], ids=str)
def test_a_deadline_may_be_as_far_as_it_likes(device: BlockingDevice, timeout_s: float) -> None:
    (tensor,) = device.stage(4, timeout_s=timeout_s)
    tensor.write(0, b"grad", timeout_s)
    assert tensor.read(0, 4, timeout_s=timeout_s) == b"grad"
    assert pool(device, ONE, (1, 2, 2), timeout_s=timeout_s).sum() == 1
    device.native.check_steps()


WAIT, QUERY = b"aclrtSynchronizeStreamWithTimeout", b"aclrtStreamQuery"

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


@in_fork(faults=[hang(4, 1000)])
def test_a_late_group_waits_no_longer_for_what_is_not_done() -> None:
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


@in_fork(host_pointers=False, stream_failure_mode=False, faults=[hang()])
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


@in_fork(stream_failure_mode=False)
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
