"""Cancelled calls, and calls past their deadline, do not begin."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclgrad_native import AclError, IndexCheck

from .blocking import BlockingDevice
from .pooling import FLOAT32, plan, pool

TIMEOUT_CODE = 507046
ONE = np.ones((1, 1, 1), np.float32)
SLOW: dict[str, Any] = {"kind": "hang", "at": 1, "duration_ms": 500}
"""The first kernel takes half a second."""
START = """
device = open_device(stream_limit=arguments[0])
waiting = device.waiting
def wait_until_leased(count):
    wait_until(lambda: device.state().leased_stream_count == count)
"""


@pytest.fixture
def run(run_program: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def run(program: str, stream_limit: int, fault: dict[str, Any] = SLOW, **host: Any) -> list[str]:
        return run_program(START + program, stream_limit, faults=[fault], **host)

    return run


BEFORE = """
tickets = [waiting.new_ticket() for _ in range(3)]
first = device.native.submit(tickets[0], call, contents, deadline(60))
wait_until_leased(1)
device.native.submit(tickets[1], call, contents, deadline(60)).cancel()
device.native.submit_batch(tickets[2], [(call, contents, b"")] * 2, deadline(60)).cancel()
first.cancel()
print(len(waiting.result(tickets[0])))
error = waiting.end(tickets[1])
print(error.code, error.call, error.detail)
print([error.code for error in waiting.result(tickets[2])[1]])
"""


def test_a_call_that_is_cancelled_before_it_begins(run: Callable[..., list[str]]) -> None:
    """One that has begun goes on."""
    late = f"{TIMEOUT_CODE} the call its client has gone"
    assert run(BEFORE, 1) == ["16", late, str([TIMEOUT_CODE] * 2)]


BETWEEN = """
ticket = waiting.new_ticket()
cancellation = device.native.submit_batch(ticket, [(call, contents, b"")] * 6, deadline(60))
wait_until_leased(2)
cancellation.cancel()
reply, errors = waiting.result(ticket)
print([error and error.code for error in errors])
device.assert_idle()
"""


def test_a_batch_that_is_cancelled_between_its_calls(run: Callable[..., list[str]]) -> None:
    """The calls that have the two streams go on."""
    assert run(BETWEEN, 2) == [str([None] * 2 + [TIMEOUT_CODE] * 4)]


LATE_BATCH = """
ticket = waiting.new_ticket()
device.native.submit_batch(ticket, [(call, contents, b"")] * 6, deadline(0.2))
reply, errors = waiting.result(ticket)
print([error and (error.code, error.call) for error in errors])
"""


def test_a_batch_begins_no_call_after_its_deadline(run: Callable[..., list[str]]) -> None:
    """The first is late itself; those that waited for a stream are not begun."""
    (line,) = run(LATE_BATCH, 2)
    assert line.startswith(f"[({TIMEOUT_CODE}, 'aclrtSynchronizeStream'), ")
    assert line.count(f"({TIMEOUT_CODE}, 'the batch')") == 4


WITHOUT_STREAM = """
for _ in range(2):
    print(outcome(device.execute, call, contents, 0.1))
"""


def test_a_call_that_gets_no_stream_does_not_begin(run: Callable[..., list[str]]) -> None:
    """The abandoned first one keeps the only stream."""
    assert run(WITHOUT_STREAM, 1) == ["timeout aclrtSynchronizeStream", "not_begun the wait for a stream"]


LATE_INPUT = """
shape = (1, 1, 2 << 20)
try:
    device.execute(plan(shape, shape), [bytes(8 << 20), None], 0.1)
except AclError as error:
    print(error.fault, error.detail)
print(device.state().abandoned_count)
device.assert_idle()
"""


def test_a_kernel_does_not_begin_after_the_deadline(run: Callable[..., list[str]]) -> None:
    """The copy of its input, which is too large for pinned memory, takes too long."""
    slow = {"kind": "slow_copy", "at": 1, "duration_ms": 300}
    late = "not_begun its deadline passed before its kernel began"
    assert run(LATE_INPUT, 1, slow, host_pointers=False) == [late, "0"]


def checked(bound: int) -> Any:
    """A call whose values break its check if the bound is 0: that would be the error of a call that begins."""
    return plan(
        (1, 1, 1), (1, 2, 2), inputs=[((1, 1, 1), FLOAT32, False, IndexCheck(bound)), ((1, 2, 2), 0, False, None)]
    )


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, -1e300, -math.inf, math.nan], ids=str)
def test_a_call_whose_deadline_passed_before_it_begins(device: BlockingDevice, timeout_s: float) -> None:
    with pytest.raises(AclError) as caught:
        device.execute(checked(0), [bytes(8), None], timeout_s)
    assert (caught.value.code, caught.value.fault, caught.value.call) == (TIMEOUT_CODE, "not_begun", "the call")
    assert "deadline" in caught.value.detail
    _, errors = device.execute_all([(checked(0), [bytes(8), None], b"")] * 3, timeout_s)
    assert [getattr(error, "code", error) for error in errors] == [TIMEOUT_CODE] * 3
    (target,) = device.stage(16)
    with pytest.raises(AclError, match="deadline"):
        device.execute_into(plan((1, 1, 1), (1, 2, 2)), [b"grad", None], target, timeout_s)
    device.native.check_steps()


@pytest.mark.parametrize("timeout_s", [1e9, 1e300, math.inf], ids=str)
def test_a_deadline_may_be_as_far_as_it_likes(device: BlockingDevice, timeout_s: float) -> None:
    (tensor,) = device.stage(4, timeout_s=timeout_s)
    tensor.write(0, b"grad", timeout_s)
    assert tensor.read(0, 4, timeout_s=timeout_s) == b"grad"
    assert pool(device, ONE, (1, 2, 2), timeout_s=timeout_s).sum() == 1
    device.native.check_steps()


def test_a_call_that_has_ended_is_cancelled_without_effect(device: BlockingDevice) -> None:
    ticket = device.waiting.new_ticket()
    cancellation = device.native.submit(ticket, plan((1, 1, 1), (1, 2, 2)), [b"grad", None], 1e9)
    assert len(device.waiting.result(ticket)) == 16
    cancellation.cancel()
    cancellation.cancel()
