"""The threads of a device: their contexts, calls that begin together or are planned alone, and threads refused."""

import ctypes
import os

import numpy as np
import pytest

from aclgrad import reference
from aclgrad_native import AclError, Meeting
from tools.calling import wait_until

from .blocking import BlockingDevice, deadline
from .forked import CALL, CONTENTS, open_device, open_library, steer
from .forks import in_fork
from .pooling import SYMBOL, plan, pool

pytestmark = pytest.mark.once

SET = b"aclrtSetCurrentContext"
PHASE_1 = f"{SYMBOL}GetWorkspaceSize".encode()


def assert_right(device: BlockingDevice) -> None:
    grad_output = np.arange(4, dtype=np.float32).reshape(1, 1, -1)
    assert (pool(device, grad_output, (1, 2, 4)) == grad_output / 2).all()


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork(devices=2)
def test_a_thread_of_ours_sets_its_context_once(host_pointers: bool) -> None:
    """Those of calls, of stagings and of copies; `programs/stress_device.cpp` has devices that take turns."""
    library = open_library(steered=True)
    device = BlockingDevice(library, stream_limit=1, copy_threads=1)
    steer.Calls(SET)
    for _ in range(20):
        assert_right(device)
    assert steer.Calls(SET) == 1
    tensors = [device.stage(1000)[0] for _ in range(5)]
    assert steer.Calls(SET) == 1
    for tensor in tensors:
        tensor.write(0, bytes(range(250)) * 4)
        assert tensor.read(0, 1000) == bytes(range(250)) * 4
    device.release_finished()
    assert steer.Calls(SET) == 1
    del tensors, tensor, device
    # A device that is opened again is set again.
    device = BlockingDevice(library, stream_limit=1)
    steer.Calls(SET)
    for _ in range(2):
        assert_right(device)
    assert steer.Calls(SET) == 1


@in_fork(devices=2)
def test_a_thread_that_others_use_too_is_given_the_context_for_every_call() -> None:
    """Here the other users are another device, and somebody who sets no context."""
    library = open_library(steered=True)
    devices = [BlockingDevice(library, index) for index in range(2)]
    steer.Calls(SET)
    plain = ctypes.CDLL(os.environ["STEERED_HOST"])
    for number in range(6):
        device = devices[number % 2].native
        assert device.run_short(CALL, CONTENTS, deadline(10), None) is not None
        assert plain.aclrtSetDevice(number // 2 % 2) == 0
    assert steer.Calls(SET) == 6


@in_fork()
def test_as_many_calls_as_there_are_threads_run_on_all() -> None:
    device = open_device(steered=True, stream_limit=4)
    for count in (2, 4):
        meeting = Meeting(count)
        tickets = [device.submit(CALL, CONTENTS, meeting=meeting) for _ in range(count)]
        assert {len(device.waiting.result(ticket)) for ticket in tickets} == {16}
        assert steer.Planners() == count
    for _ in range(20):
        device.execute(CALL, CONTENTS)
    assert steer.Planners() == 4


@in_fork()
def test_a_call_whose_meeting_is_never_complete_does_not_begin() -> None:
    device = open_device(stream_limit=4)
    with pytest.raises(AclError, match="1 of its kind did not begin in time") as caught:
        device.waiting.result(device.submit(CALL, CONTENTS, 0.1, meeting=Meeting(2)))
    assert caught.value.fault == "not_begun"
    assert len(device.execute(CALL, CONTENTS)) == 16


@in_fork()
def test_phase_1_waits_for_another_if_it_is_not_safe() -> None:
    device = open_device(steered=True, stream_limit=3)
    alone = plan((1, 1, 1), (1, 2, 2), is_planned_alone=True)
    steer.Hang(PHASE_1, 1, False)
    tickets = [device.submit(alone, CONTENTS) for _ in range(2)]
    wait_until(lambda: steer.Hanging(PHASE_1))
    # When a third call has ended, the second has begun.
    device.execute(CALL, CONTENTS)
    assert steer.Calls(PHASE_1) == 2
    steer.Release()
    for ticket in tickets:
        device.waiting.result(ticket)
    assert steer.Calls(PHASE_1) == 1


@pytest.mark.parametrize("refused", ["workers", "streams"])
@in_fork(threads=4)
def test_large_calls_are_answered_where_the_system_refuses_threads(refused: str) -> None:
    library = open_library()
    if refused == "workers":
        # One of three is there.
        steer.Refuse(1, 1)
    device = BlockingDevice(library, stream_limit=3)
    if refused == "streams":
        steer.Refuse(0, 1000)
    grads = [np.random.default_rng(seed).standard_normal((8, 16, 16), np.float32) for seed in range(6)]
    shape = (8, 256, 256)
    tickets = [device.submit(plan(grad.shape, shape), [grad.tobytes(), None]) for grad in grads]
    for ticket, grad in zip(tickets, grads, strict=True):
        found = np.frombuffer(device.waiting.result(ticket), np.float32).reshape(shape)
        np.testing.assert_allclose(found, reference.adaptive_avg_pool2d_backward(grad, shape), rtol=1e-5, atol=1e-6)
    device.native.check_steps()
    assert steer.Refused() > 0
