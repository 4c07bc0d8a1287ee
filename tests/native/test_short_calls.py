"""Calls that take less time than waking a thread run on the thread that makes them."""

import numpy as np
import pytest

from aclgrad.masks import argmax_of_input
from aclgrad_native import AclError, CallTemplate, InvalidValueError, MaskEncoding
from tools.calling import wait_until

from .blocking import BlockingDevice, deadline
from .forked import CALL, CONTENTS, LAUNCH, open_device, steer
from .forks import in_fork
from .pooling import plan
from .test_checked_calls import GRAD, INDICES, POOLING, VALUES, gradient, max_pool, spoiled, unpool, unpooled

# No call is short on a strict device, which another mode has.
pytestmark = pytest.mark.once

GRADIENT = np.arange(1, 4, dtype=np.float32).reshape(3, 1, 1)
SHAPE = (3, 2, 2)


def known(device: BlockingDevice, call: CallTemplate, contents: list[object]) -> CallTemplate:
    """Returns the plan after a first call: nothing is known of its time before."""
    assert not call.is_short
    device.execute(call, contents)
    assert call.is_short
    return call


def run_short(device: BlockingDevice, call: CallTemplate, contents: list[object]) -> object:
    return device.native.run_short(call, contents, deadline(60), device.waiting.new_ticket())


def test_a_short_call_has_the_reply_of_any_other(device: BlockingDevice) -> None:
    call = known(device, plan(GRADIENT.shape, SHAPE, b"prefix"), [GRADIENT.tobytes(), None])
    reply = run_short(device, call, [GRADIENT.tobytes(), None])
    expected = np.broadcast_to(GRADIENT / 4, SHAPE)
    assert isinstance(reply, bytes)
    assert reply == b"prefix" + expected.tobytes()


def test_a_large_call_is_not_short(device: BlockingDevice) -> None:
    shape = (1, 256, 256)
    call = plan(shape, shape)
    device.execute(call, [np.ones(shape, np.float32).tobytes(), None])
    assert not call.is_short


def test_values_are_checked_first(device: BlockingDevice) -> None:
    contents = [GRAD.tobytes(), None, INDICES.tobytes()]
    call = known(device, unpool(), contents)
    with pytest.raises(InvalidValueError, match="has 24 at position 17"):
        run_short(device, call, [GRAD.tobytes(), None, spoiled()])
    reply = run_short(device, call, contents)
    assert isinstance(reply, bytes)
    np.testing.assert_array_equal(gradient(reply, INDICES.shape), unpooled())


def test_a_call_that_is_late_does_not_begin_and_returns_its_ticket(device: BlockingDevice) -> None:
    call = known(device, plan(GRADIENT.shape, SHAPE), [GRADIENT.tobytes(), None])
    ticket = device.waiting.new_ticket()
    with pytest.raises(AclError, match="before it began"):
        device.native.run_short(call, [GRADIENT.tobytes(), None], deadline(-1), ticket)
    device.waiting.result(ticket)


@in_fork()
def test_a_short_call_never_waits_for_a_stream() -> None:
    device = open_device(steered=True, stream_limit=1)
    short = known(device, plan((1, 1, 1), (1, 2, 2)), CONTENTS)
    steer.Hang(LAUNCH, 1, False)
    ticket = device.submit(CALL, CONTENTS)
    wait_until(lambda: steer.Hanging(LAUNCH))
    assert run_short(device, short, CONTENTS) is None
    steer.Release()
    assert len(device.waiting.result(ticket)) == 16
    assert run_short(device, short, CONTENTS) == device.execute(CALL, CONTENTS)


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork()
def test_a_short_call_wakes_no_stream_for_a_copy_or_a_filling(host_pointers: bool) -> None:
    """The device reads beyond what is given of a mask, so it never reads that in its place."""
    device = open_device(steered=True)
    device.execute(CALL, CONTENTS)
    assert CALL.is_short == host_pointers
    positions = argmax_of_input(VALUES, POOLING)[1].astype(np.int32)
    given = [np.ones(positions.shape, np.float32).tobytes(), None, positions.tobytes()]
    masked = max_pool(MaskEncoding.NONE, 4)
    expected = device.execute(masked, given)
    steer.Calls(b"aclrtMemcpyAsync")
    assert masked.is_short == host_pointers
    if host_pointers:
        assert run_short(device, masked, given) == expected
        assert (steer.Calls(b"aclrtMemcpyAsync"), steer.Calls(b"aclrtMemsetAsync")) == (0, 0)
