"""The threads and streams of a device: contexts, calls that begin together or alone, and what the system refuses."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.products import STREAM_LIMITS, Product
from aclgrad_native import AclError
from tools.calling import wait_until

from .blocking import BlockingDevice
from .forked import CALL, CONTENTS, open_device, open_library, steer
from .forks import in_fork
from .pooling import SYMBOL, assert_pooled, plan

SET = b"aclrtSetCurrentContext"
PHASE_1 = f"{SYMBOL}GetWorkspaceSize".encode()


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork()
def test_a_thread_of_ours_sets_its_context_once(host_pointers: bool) -> None:
    """Those of calls, of stagings and of copies."""
    library = open_library(steered=True)
    device = BlockingDevice(library, stream_limit=1, copy_threads=1)
    steer.Calls(SET)
    for _ in range(20):
        assert_pooled(device, (1, 1, 4), 2)
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
        assert_pooled(device, (1, 1, 4), 2)
    assert steer.Calls(SET) == 1


@in_fork()
def test_a_call_for_each_thread_runs_on_all() -> None:
    device = open_device(steered=True, stream_limit=4)
    for count in (2, 4):
        tickets = [device.submit(CALL, CONTENTS, thread=thread) for thread in range(count)]
        assert {len(device.waiting.result(ticket)) for ticket in tickets} == {16}
        assert steer.Planners() == count
    for _ in range(20):
        device.execute(CALL, CONTENTS)
    assert steer.Planners() == 4


@in_fork()
def test_calls_for_one_thread_wait_for_it_while_others_are_idle() -> None:
    device = open_device(steered=True, stream_limit=4)
    tickets = [device.submit(CALL, CONTENTS, thread=2) for _ in range(20)]
    assert {len(device.waiting.result(ticket)) for ticket in tickets} == {16}
    assert steer.Planners() == 1


@in_fork()
def test_a_thread_that_there_is_not_is_refused() -> None:
    device = open_device(stream_limit=4)
    with pytest.raises(IndexError):
        device.submit(CALL, CONTENTS, thread=4)
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


NO_STREAM = 207008
PRODUCT = Product.ATLAS_A2


def elsewhere(left: int) -> int:
    """Returns how many streams others have if so many are left for a process, beside its default stream."""
    return STREAM_LIMITS[PRODUCT] - 1 - left


@in_fork(host_pointers=False, threads=2, product=PRODUCT, streams_elsewhere=elsewhere(6))
def test_every_call_is_answered() -> None:
    """Copies have streams of their own, of which one is left to them, whatever the calls have taken."""
    device = open_device(stream_limit=16)
    call, ones, size = plan((1, 1, 1), (1, 2, 2)), np.ones((1, 1, 1), np.float32), 3 << 20
    tickets = [device.submit(call, [ones * number, None]) for number in range(400)]
    # A larger pool of memory is also read and written by copies of its own.
    tensors = device.stage(size, size)
    for number, tensor in enumerate(tensors):
        tensor.write(0, bytes([number]) * size)
    reply, errors = device.execute_all([(call, [ones * number, None], b"") for number in range(50)])
    assert errors == [None] * 50
    replies = [device.waiting.result(ticket) for ticket in tickets]
    for found in (reply, b"".join(replies)):
        gradients = np.frombuffer(found, np.float32).reshape(-1, 4)
        assert (gradients == np.arange(len(gradients))[:, None] / 4).all()
    assert [tensor.read(0, size) for tensor in tensors] == [bytes([number]) * size for number in range(2)]
    assert device.state().stream_count <= 6


@pytest.mark.parametrize("streams_elsewhere", [elsewhere(0), elsewhere(1)])
@in_fork(host_pointers=False, product=PRODUCT)
def test_a_device_without_a_stream_does_not_open(streams_elsewhere: int) -> None:
    """Copies need one, too."""
    with pytest.raises(AclError) as caught:
        open_device()
    assert (caught.value.fault, caught.value.code, caught.value.call) == ("streams", NO_STREAM, "aclrtCreateStream")


@pytest.mark.slow
@in_fork()
def test_it_asks_again_after_some_seconds() -> None:
    """Another process may have ended."""
    device = open_device(steered=True, stream_limit=4)
    steer.Fail(b"aclrtCreateStream", NO_STREAM, 1)
    batch = [(CALL, CONTENTS, b"")] * 4
    assert device.execute_all(batch)[1] == [None] * 4
    assert device.state().stream_count == 1
    wait_until(lambda: device.execute_all(batch)[1] == [None] * 4 and device.state().stream_count > 1)
    assert steer.Calls(b"aclrtCreateStream") <= 5
