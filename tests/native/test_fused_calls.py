"""A call on staged tensors that also makes the copies around it: each step is made only for a caller that waits."""

from collections.abc import Callable

import numpy as np
import pytest

from aclgrad import reference
from aclgrad_native import AclLibrary

from .blocking import BlockingDevice, deadline
from .pooling import plan

pytestmark = pytest.mark.once

GRAD = np.random.default_rng(0).standard_normal((1, 4, 8), np.float32)
SHAPE = (1, 8, 16)


def test_copies_are_made_around_the_call_and_in_order(device: BlockingDevice) -> None:
    """The second write is the one that counts, and the reads are of what the operator wrote."""
    source, target = device.stage(GRAD.nbytes, 512)
    data = GRAD.tobytes()
    writes = [(source.native, 0, b"\x7f" * 100), (source.native, 0, data[:77]), (source.native, 77, data[77:])]
    reads = [(target.native, 0, b"first", 300), (target.native, 300, b"", 212), (source.native, 0, b"input", 128)]
    work = plan(GRAD.shape, SHAPE), [source.native, None], [target.native], deadline(60), None, None
    first, second, third = device.waiting.call(device.native.submit_into, *work, writes, reads)
    gradient = np.frombuffer(first.removeprefix(b"first") + second, np.float32).reshape(SHAPE)
    np.testing.assert_allclose(gradient, reference.adaptive_avg_pool2d_backward(GRAD, SHAPE), rtol=1e-5, atol=1e-6)
    assert third == b"input" + data
    del source, target, writes, reads, work
    device.assert_idle()


def test_copies_of_an_empty_call_are_made_as_well(device: BlockingDevice) -> None:
    (target,) = device.stage(16)
    work = plan((1, 1, 1), (1, 2, 2), is_empty=True), [None, None], [target.native], deadline(60), None, None
    writes, reads = [(target.native, 0, b"\x7f" * 16)], [(target.native, 0, b"", 16)]
    assert device.waiting.call(device.native.submit_into, *work, writes, reads) == [bytes(16)]


def test_a_copy_beyond_the_end_keeps_the_call_from_running(device: BlockingDevice) -> None:
    source, target = device.stage(4, 16)
    work = plan((1, 1, 1), (1, 2, 2)), [source.native, None], [target.native], deadline(60), None, None
    for writes, reads in (([(source.native, 1, b"grad")], []), ([], [(target.native, 0, b"", 17)])):
        target.write(0, b"\x55" * 16)
        source.write(0, bytes(4))
        with pytest.raises(IndexError, match="do not fit into tensor"):
            device.waiting.call(device.native.submit_into, *work, writes, reads)
        assert target.read(0, 16) == (b"\x55" * 16 if writes else bytes(16))


def test_a_tensor_that_is_closed_or_of_another_device_is_refused(library: AclLibrary, device: BlockingDevice) -> None:
    source, target, closed = device.stage(4, 16, 4)
    closed.native.close()
    (other,) = BlockingDevice(library).stage(4)
    work = plan((1, 1, 1), (1, 2, 2)), [source.native, None], [target.native], deadline(60), None, None
    for tensor, problem in ((closed, "the tensor is closed"), (other, "was staged on device 0")):
        with pytest.raises(ValueError, match=f"write 0.*{problem}"):
            device.waiting.call(device.native.submit_into, *work, [(tensor.native, 0, b"grad")])
        with pytest.raises(ValueError, match=f"read 0.*{problem}"):
            device.waiting.call(device.native.submit_into, *work, [], [(tensor.native, 0, b"", 4)])


WALK = """
COPY, LAUNCH = b"aclrtMemcpyAsync", b"aclnnAdaptiveAvgPool2dBackward"
STEPS = [(COPY, 1), (COPY, 2), (LAUNCH, 1), (COPY, 3), (COPY, 4)]
device = open_device(steered=True)
shape = (1, 8, 8)
data = np.ones(shape, np.float32).tobytes()

def submit(end):
    global source, target
    source, target = device.stage(len(data), len(data))
    ticket, released = device.waiting.new_ticket(), device.waiting.new_ticket()
    device.released.append(released)
    halves = range(0, len(data), len(data) // 2)
    writes = [(source.native, start, data[start : start + len(data) // 2]) for start in halves]
    reads = [(target.native, start, b"", len(data) // 2) for start in halves]
    inputs, targets = [source.native, None], [target.native]
    work = plan(shape, shape), inputs, targets, end, None, released, writes, reads
    return ticket, device.native.submit_into(ticket, *work)

def counts():
    return steer.Calls(COPY), steer.Calls(LAUNCH)

def leave():
    global source, target
    del source, target
    device.assert_idle()
    assert device.state().abandoned_count == 0
    # The next call is right, and takes the memory that this one had.
    ticket, _ = submit(deadline(60))
    assert b"".join(device.waiting.result(ticket)) == data
    del source, target
    device.assert_idle()
    counts()
"""
CANCELLED = """
for name, number in STEPS:
    steer.Hang(name, number, False)
    ticket, cancellation = submit(deadline(60))
    wait_until(lambda: steer.Hanging(name))
    cancellation.cancel()
    steer.Release()
    end = device.waiting.end(ticket)
    print(*counts(), getattr(end, "detail", "done"))
    leave()
"""
GONE = "its client has gone"


def test_a_call_that_is_cancelled_between_two_steps_makes_no_further_one(run_program: Callable[..., list[str]]) -> None:
    """Each step hangs once, and is the last: copies in, the kernel, copies out."""
    assert run_program(WALK + CANCELLED, host_pointers=False) == [
        f"1 0 {GONE}",
        f"2 0 {GONE}",
        f"2 1 {GONE}",
        f"3 1 {GONE}",
        "4 1 done",
    ]


ALONE = """
(tensor,) = device.stage(256)
halves = (0, 128)
write = device.native.write, [(tensor.native, start, bytes(128)) for start in halves]
read = device.native.read, [(tensor.native, start, b"", 128) for start in halves]
for method, copies in (write, read):
    steer.Hang(COPY, 1, False)
    ticket = device.waiting.new_ticket()
    cancellation = method(ticket, copies, deadline(60))
    wait_until(lambda: steer.Hanging(COPY))
    cancellation.cancel()
    steer.Release()
    end = device.waiting.end(ticket)
    print(*counts(), end.detail)
"""


def test_copies_of_a_caller_that_has_gone_end_between_two_of_them(run_program: Callable[..., list[str]]) -> None:
    assert run_program(WALK + ALONE, host_pointers=False) == [f"1 0 {GONE}"] * 2


LATE = """
for name, number in STEPS[:3]:
    steer.Hang(name, number, False)
    late = deadline(0.2)
    ticket, _ = submit(late)
    wait_until(lambda: steer.Hanging(name))
    wait_until(lambda: time.monotonic() > late)
    steer.Release()
    end = device.waiting.end(ticket)
    print(*counts(), end.fault)
    wait_until(lambda: (device.release_finished(), device.state().abandoned_count == 0)[1])
    leave()
"""


def test_a_call_whose_deadline_passes_between_two_steps_makes_no_further_one(
    run_program: Callable[..., list[str]],
) -> None:
    lines = run_program(WALK + LATE, host_pointers=False)
    assert [line.rsplit(" ", 1)[0] for line in lines] == ["1 0", "2 0", "2 1"]
    assert {line.rsplit(" ", 1)[1] for line in lines} <= {"not_begun", "timeout"}
