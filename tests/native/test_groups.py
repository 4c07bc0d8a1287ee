"""Steps that use each other's outputs on one stream: bit for bit what they are as calls of their own."""

from typing import Any

import numpy as np
import pytest

from aclgrad_native import CallTemplate, Input, OutputUse, Place, View

from .blocking import BlockingDevice, alone, lane
from .forked import open_device, steer
from .forks import in_fork
from .lanes import OTHER, ROOM, SIZE, START, alone_and_in_order, chain, place, silu, truth
from .pooling import FLOAT32, plan, returned
from .test_memory import roi_align_call

LIBRARIES = {
    "host_pointers": {},
    "copies": {"host_pointers": False},
    "strict": {"host_pointers": False, "strict": True},
}
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "executors_kept": {"executor_limit": 8},
    "one_executor_kept": {"executor_limit": 1},
    "pass_through": {"pool_pass_through": True, "executor_limit": 2},
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("places", [(0, 1, 2, 3, 4), (0, 1, 0, 1, 0), (4, 1, 2, 4, 1)], ids=str)
def test_a_chain_has_the_bits_of_calls(library: Any, places: tuple[int, ...], mode: dict[str, Any]) -> None:
    """Also if a later step gets the place of an output that nobody needs any more."""
    device = BlockingDevice(library, **mode)
    *_, expected = alone_and_in_order(device, len(places) + 1)
    lanes = [lane(*range(len(places) + 1), arena_bytes=5 * ROOM)]
    for _ in range(3):
        reply, errors, messages = device.run_group(chain(places), lanes)
        assert (errors, messages) == ([None] * (len(places) + 1), [])
        assert reply == expected
    np.testing.assert_allclose(np.frombuffer(reply, np.float32), truth(len(places) + 1), rtol=2e-5, atol=1e-6)
    device.assert_idle()


def test_each_step_of_a_lane_has_an_executor_of_its_own(library: Any) -> None:
    """One of equal steps has the kept one, and none that this lane uses makes way for another."""
    device = BlockingDevice(library, stream_limit=1, executor_limit=2)
    lanes = [lane(*range(4), arena_bytes=4 * ROOM)]
    expected = alone_and_in_order(device, 4)[-1]
    counts = []
    for _ in range(2):
        assert device.run_group(chain((0, 1, 2)), lanes)[0] == expected
        state = device.state().executors
        counts.append((state.entry_count, state.hit_count, state.miss_count))
    assert counts == [(1, 4, 4), (1, 5, 7)]
    # Three forms, of which two have room.
    forms = [alone(plan((1, 1, 1), (1, 2, width)), [b"grad", None]) for width in (1, 2, 3)]
    reply, errors, _ = device.run_group(forms, [lane(0, 1, 2)])
    assert (len(reply), errors) == (8 + 16 + 24, [None] * 3)
    assert device.state().executors.entry_count == 2
    device.assert_idle()


def test_a_reply_has_the_prefixes_and_outputs_in_the_order_of_the_steps(device: BlockingDevice) -> None:
    """Whatever their lanes; an output that later steps read may be in it as well."""
    first, second, third = alone_and_in_order(device, 3)
    steps = chain((0, 1))
    for position, prefix in enumerate((b"first", b"second", b"third")):
        given, contents, _, sinks, needs, guaranteed = steps[position]
        sinks = [(place(position), position == 1)] if position < 2 else sinks
        steps[position] = given, contents, prefix, sinks, needs, guaranteed
    other = alone(plan((1, 1, 1), (1, 2, 2), b"<"), [np.float32(4).tobytes(), None], b"other")
    (steps[2:2],) = ([other],)
    steps[3] = (*steps[3][:4], [1], [])
    lanes = [lane(2), lane(0, 1, 3, arena_bytes=2 * ROOM)]
    reply, errors, _ = device.run_group(steps, lanes)
    assert errors == [None] * 4
    assert reply == b"first" + b"second" + second + b"other<" + np.ones(4, np.float32).tobytes() + b"third" + third
    assert first != second
    device.assert_idle()


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("in_reply", [False, True])
def test_an_output_may_go_to_a_staged_tensor(device: BlockingDevice, on_host: bool, in_reply: bool) -> None:
    """From where a later step of the lane, or of a later group, may read it."""
    first, second, third = alone_and_in_order(device, 3)
    kept, (last,) = device.stage(SIZE)[0], device.stage(SIZE, on_host=on_host)
    other = OTHER.tobytes()
    steps = [
        (silu(), [START.tobytes(), other], b"", [(kept.native, in_reply)], [], []),
        (silu(), [kept.native, other], b"", [(last.native, in_reply)], [0], []),
    ]
    reads = [(kept.native, 0, b"kept", SIZE), (last.native, 8, b"last", 16)]
    reply, errors, messages = device.run_group(steps, [lane(0, 1)], reads=reads)
    assert (errors, messages) == ([None] * 2, [b"kept" + first, b"last" + second[8:24]])
    assert reply == (first + second if in_reply else b"")
    assert device.run_group([alone(silu(), [last.native, other])])[0] == third
    assert last.read(0, SIZE) == second
    del kept, last, steps, reads
    device.assert_idle()


def test_an_empty_step_writes_zeros_wherever_its_output_goes(device: BlockingDevice) -> None:
    """In the order of its lane: a later step reads them from the place that an earlier output had."""
    (kept,) = device.stage(SIZE)
    kept.write(0, b"\x7f" * SIZE)
    other = OTHER.tobytes()
    empty = CallTemplate("aclnnSiluBackward", [None, None], [], [returned((1000,))], is_empty=True)
    steps = [
        (silu(), [START.tobytes(), other], b"", [(place(0), False)], [], []),
        (silu(), [place(0), other], b"", [(place(1), True)], [0], []),
        (empty, [None, None], b"", [(place(0), True)], [], []),
        (silu(), [place(0), other], b"", None, [2], []),
        (empty, [None, None], b"", None, [], []),
        (empty, [None, None], b"", [(kept.native, True)], [], []),
    ]
    reply, errors, _ = device.run_group(steps, [lane(*range(6), arena_bytes=2 * ROOM)])
    assert errors == [None] * 6
    assert reply[:SIZE] == alone_and_in_order(device, 2)[1]
    # Some of what the step makes of zeros are -0.
    assert (np.frombuffer(reply[SIZE:], np.float32) == np.zeros(4 * 1000)).all()
    assert kept.read(0, SIZE) == bytes(SIZE)
    del kept, steps
    device.assert_idle()


def test_what_steps_need_only_while_they_run_is_shared(library: Any) -> None:
    """Copies of views, outputs that nobody wants, shapes without values, and workspaces: each as in a call alone."""
    device = BlockingDevice(library)
    view = View(2, (1, 10), 300)
    viewed = Input((10, 25), FLOAT32, view=view, is_copied=True)
    steps = []
    for seed in range(3):
        values = np.random.default_rng(seed).standard_normal(300, np.float32)
        call = CallTemplate("aclnnSiluBackward", [viewed, viewed], [], [returned((10, 25))])
        steps.append(alone(call, [values.tobytes(), values[::-1].tobytes()]))
        steps.append(alone(*roi_align_call()))
        unwanted = plan((1, 1, 1), (1, 2, 2), outputs=[((1, 2, 2), FLOAT32, 16, b"", OutputUse.SCRATCH)])
        steps.append(alone(unwanted, [b"grad", None]))
        steps.append(alone(plan((1, 1, 1), (1, 2, 2)), [b"grad", None]))
    apart, errors, _ = device.run_group(steps)
    assert errors == [None] * len(steps)
    before = device.state().pool.allocation_count
    together, errors, _ = device.run_group(steps, [lane(*range(len(steps)))])
    assert errors == [None] * len(steps)
    assert together == apart
    strided = np.lib.stride_tricks.as_strided(np.arange(300)[2:], (10, 25), (8, 80)).reshape(-1)
    first = np.random.default_rng(0).standard_normal(300, np.float32)
    grad, value = first[strided].astype(np.float64), first[::-1][strided].astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-value))
    expected = grad * sigmoid * (1 + value * (1 - sigmoid))
    np.testing.assert_allclose(np.frombuffer(together[:1000], np.float32), expected, rtol=1e-5, atol=1e-6)
    # One scratch block, and one workspace. What is not taken from the host as it is: nine outputs, and the inputs, of
    # which one is the same in six steps.
    made = device.state().pool.allocation_count - before
    assert made == 2 + (0 if library.host_pointers else 9 + 13)
    device.assert_idle()


def test_large_tensors_of_a_lane_are_copied_without_pinned_memory(device: BlockingDevice) -> None:
    """Five mebibytes each; the small ones beside them go the usual way."""
    count = 5 << 18
    values = np.random.default_rng(0).standard_normal(count, np.float32).tobytes()
    sinks: list[Any] = [(Place(0, 4 * count), True)]
    steps = [
        alone(silu(), [START.tobytes(), OTHER.tobytes()]),
        (silu(count=count), [values, values], b"", sinks, [], []),
        (silu(count=count), [Place(0, 4 * count), values], b"", None, [1], []),
    ]
    reply, errors, _ = device.run_group(steps, [lane(0, 1, 2, arena_bytes=4 * count + 512)])
    assert errors == [None] * 3
    first = device.execute(silu(count=count), [values, values])
    assert reply == alone_and_in_order(device, 1)[0] + first + device.execute(silu(count=count), [first, values])
    device.assert_idle()


COPY, WAIT, FILL = b"aclrtMemcpyAsync", b"aclrtSynchronizeStreamWithTimeout", b"aclrtMemsetAsync"


@in_fork(host_pointers=False)
def test_a_lane_copies_what_its_steps_share_once_and_waits_once() -> None:
    device = open_device(steered=True)
    *_, expected = alone_and_in_order(device, 4)
    other = memoryview(OTHER.tobytes())
    [steer.Calls(each) for each in (COPY, WAIT, FILL)]
    assert device.run_group(chain((0, 1, 0), other), [lane(0, 1, 2, 3, arena_bytes=2 * ROOM)])[0] == expected
    # The two inputs, and the last output; each step's output is filled.
    assert [steer.Calls(each) for each in (COPY, WAIT, FILL)] == [3, 1, 4]
    device.assert_idle()


FILLING = b"\xff" * SIZE


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "unwritten_output", "at": 1, "count": 2**62}])
def test_what_operators_leave_unwritten_is_filled_in_the_order_of_the_lane() -> None:
    """No bytes of another call, nor of the step that had the place before."""
    device = open_device(executor_limit=2)
    secret = device.stage(*[2 * ROOM] * 8)
    for tensor in secret:
        tensor.write(0, b"\xa5" * 2 * ROOM)
    del secret, tensor
    device.wait_until_released()
    (kept,) = device.stage(SIZE)
    other = OTHER.tobytes()
    steps = [
        (silu(), [START.tobytes(), other], b"", [(place(0), False)], [], []),
        (silu(), [place(0), other], b"", [(place(1), True)], [0], []),
        (silu(), [place(1), other], b"", [(kept.native, True)], [1], []),
        (silu(), [kept.native, other], b"", None, [2], []),
        (silu(OutputUse.RETURNED_WHOLE), [place(1), other], b"", [(place(0), True)], [1], []),
    ]
    reply, errors, _ = device.run_group(steps, [lane(*range(5), arena_bytes=2 * ROOM)])
    assert errors == [None] * 5
    # The last is said to be written whole: it has the place of the first, which was filled.
    assert reply == 4 * FILLING
    del kept, steps
    device.assert_idle()
