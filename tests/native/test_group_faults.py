"""Groups of which a part fails: its error is that of the step, of those that need it, or of all on its stream."""

from typing import Any

import pytest

from aclgrad_native import BoolCheck, CallTemplate, Input, InputFailedError, InvalidValueError, WorkspaceError
from tools.calling import wait_until

from .blocking import NO_LIMIT, POOL_BYTES, BlockingDevice, alone, deadline, lane
from .forked import CALL, CONTENTS, hang, open_device
from .forks import in_fork
from .lanes import COUNT, ROOM, SIZE, SYMBOL, alone_and_in_order, chain, place
from .pooling import FLOAT32, plan, returned
from .test_memory import roi_align_call

CHAIN = 4
APART, OTHER_LANE = CHAIN, CHAIN + 1
"""Steps that need none of the chain; the first of them is in its lane."""
LANES = [lane(OTHER_LANE), lane(*range(CHAIN + 1), arena_bytes=CHAIN * ROOM)]
NO_STOP: dict[str, Any] = {"stream_failure_mode": False}


SENT = Input((1, 1, 1), FLOAT32)
CHECKED = Input((COUNT,), FLOAT32, check=BoolCheck())
WRONG = CallTemplate(SYMBOL, [Input((COUNT,), FLOAT32), CHECKED], [], [returned((COUNT,))])


def fault(kind: str, at: int, **more: Any) -> dict[str, Any]:
    """Of the step of the chain with this position."""
    return {"kind": kind, "at": at + 1, "operator": SYMBOL, **more}


def steps_of(checked: int | None = None) -> list[Any]:
    """Returns a chain whose outputs are all in the reply, and two steps apart; one may have a value that is wrong."""
    steps = chain((0, 1, 2))
    for position, (given, contents, _, _, needs, _) in enumerate(steps):
        step = WRONG if position == checked else given
        steps[position] = step, contents, b"", [(place(position), True)], needs, []
    return [*steps, alone(CALL, CONTENTS), alone(CALL, CONTENTS)]


def ends_of(errors: list[Exception | None]) -> list[Any]:
    """Returns of each error the step that it names, its fault or its type."""

    def end_of(error: Exception | None) -> Any:
        if isinstance(error, InputFailedError):
            return error.step
        return error and getattr(error, "fault", type(error))

    return [end_of(each) for each in errors]


def assert_results(device: BlockingDevice, reply: bytes, good: list[int]) -> None:
    """The results of the steps of the chain with these positions, and those of the others."""
    for position, expected in enumerate(alone_and_in_order(device, CHAIN)):
        if position in good:
            assert reply[position * SIZE : (position + 1) * SIZE] == expected
    assert reply[CHAIN * SIZE :] == 2 * device.execute(CALL, CONTENTS)


CAUSES: dict[str, Any] = {
    "value": (None, InvalidValueError),
    "phase_1": ("phase1_error", "refused"),
    "phase_2": ("phase2_error", "internal"),
}


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("executor_limit", [0, 8])
@pytest.mark.parametrize(
    ("position", "end", "faults"),
    [
        pytest.param(at, end, [fault(kind, at)] if kind else [], id=f"{cause}-{at}")
        for cause, (kind, end) in CAUSES.items()
        for at in range(CHAIN)
    ],
)
@in_fork(strict=True)
def test_a_step_that_fails_takes_those_along_that_need_it(
    position: int, end: Any, faults: list[dict[str, Any]], executor_limit: int, host_pointers: bool
) -> None:
    """Nothing else, and the next group is good."""
    device = open_device(executor_limit=executor_limit)
    reply, errors, messages = device.run_group(steps_of(None if faults else position), LANES)
    assert ends_of(errors) == [None] * position + [end] + [position] * (CHAIN - position - 1) + [None] * 2
    assert messages == []
    assert_results(device, reply, list(range(position)))
    device.assert_idle()
    reply, errors, _ = device.run_group(steps_of(), LANES)
    assert errors == [None] * (CHAIN + 2)
    assert_results(device, reply, list(range(CHAIN)))
    device.assert_idle()


@in_fork(faults=[fault("phase1_error", 1), fault("phase1_error", 2)])
def test_the_step_that_failed_first_is_named() -> None:
    """Of two that a step needs, and not the one between; a message that was to be read is not."""
    device = open_device()
    (kept,) = device.stage(16)
    both = (*chain((0, 1))[2][:4], [2, 1, 0], [])
    steps = [*steps_of()[:3], both, (*both[:4], [3], []), alone(CALL, CONTENTS, sinks=[(kept.native, False)])]
    arena = [lane(*range(6), arena_bytes=CHAIN * ROOM)]
    _, errors, messages = device.run_group(steps, arena, reads=[(kept.native, 0, b"", 16)])
    assert ends_of(errors) == [None, "refused", 1, 1, 1, None]
    assert messages == []
    assert str(errors[4]) == "step 1 failed, whose outputs this one needs"
    assert kept.read(0, 16) == device.execute(CALL, CONTENTS)


@in_fork(host_pointers=False, strict=True)
def test_a_step_that_lacks_memory_fails_alone() -> None:
    """If its workspace is too large for the lane, or its output for the pool. An arena fails all of its lane."""
    device = open_device()
    good, hungry, count = alone(CALL, CONTENTS), alone(*roi_align_call()), POOL_BYTES // 4
    expected = device.execute(CALL, CONTENTS)
    large = alone(plan((1, 1, 1), (1, 1, count), inputs=[SENT, SENT], outputs=[returned((1, 1, count))]), [b"grad"] * 2)
    for failing, end, limit in ((hungry, WorkspaceError, 1000), (large, "memory", NO_LIMIT)):
        steps = [good, failing, (*good[:4], [1], []), good]
        reply, errors, _ = device.run_group(steps, [lane(*range(4), workspace_limit=limit)])
        assert ends_of(errors) == [None, end, 1, None]
        assert (reply[:16], reply[-16:]) == (expected, expected)
        device.assert_idle()
    _, errors, _ = device.run_group([good] * 3, [lane(0), lane(1, 2, arena_bytes=POOL_BYTES + 1)])
    assert ends_of(errors) == [None, "memory", "memory"]
    device.assert_idle()


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("faults", [[fault("launch_error", at, code=507051)] for at in range(CHAIN)], ids=str)
@in_fork(strict=True, **NO_STOP)
def test_a_kernel_that_fails_fails_all_of_its_stream(faults: list[dict[str, Any]], host_pointers: bool) -> None:
    """The steps before it as well, because the stream does not say which; other lanes are good."""
    device = open_device()
    reply, errors, _ = device.run_group(steps_of(), LANES)
    assert ends_of(errors) == ["internal"] * (CHAIN + 1) + [None]
    assert {each.code for each in errors[: CHAIN + 1]} == {507051}
    assert reply[-16:] == device.execute(CALL, CONTENTS)
    device.assert_idle()
    reply, errors, _ = device.run_group(steps_of(), LANES)
    assert errors == [None] * (CHAIN + 2)
    assert_results(device, reply, list(range(CHAIN)))


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("faults", [[fault("launch_error", at, code=507051)] for at in range(CHAIN)], ids=str)
@in_fork()
def test_a_kernel_that_fails_on_streams_that_stop_ends_the_group(
    faults: list[dict[str, Any]], host_pointers: bool
) -> None:
    """What had ended before is good, and nothing begins after it."""
    device = open_device(stream_limit=1)
    first, *lanes = LANES
    steps = [*steps_of(), alone(CALL, CONTENTS)]
    _, errors, _ = device.run_group(steps, [first, *lanes, lane(CHAIN + 2)])
    assert ends_of(errors) == ["device_lost"] * (CHAIN + 1) + [None, "device_lost"]


@pytest.mark.parametrize("faults", [[fault(f"phase{phase}_error", 1, code=507015)] for phase in (1, 2)], ids=str)
@in_fork()
def test_a_step_that_finds_the_device_lost_ends_the_group(faults: list[dict[str, Any]]) -> None:
    """Nothing that is under way is given out."""
    _, errors, _ = open_device().run_group(steps_of(), LANES)
    assert ends_of(errors) == ["device_lost"] * (CHAIN + 2)


ENDS = [fault("hang", 0, duration_ms=100, code=507051), fault("phase2_error", 2)]


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("stream_failure_mode", [True, False])
@in_fork(faults=ENDS)
def test_a_launch_that_fails_behind_a_kernel_that_fails(stream_failure_mode: bool, host_pointers: bool) -> None:
    """The wait for what was queued before shows that its results are not good."""
    device = open_device()
    _, errors, _ = device.run_group(steps_of(), LANES)
    end = "device_lost" if stream_failure_mode else "internal"
    assert ends_of(errors)[: CHAIN + 1] == [end] * (CHAIN + 1)
    assert {each.code for each in errors[: CHAIN + 1]} == {507051}


def wait_until_idle(device: BlockingDevice) -> None:
    wait_until(lambda: (device.release_finished(), device.state().abandoned_count == 0)[1])
    device.assert_idle()


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("executor_limit", [0, 8])
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("faults", [[fault("hang", 1, duration_ms=700)]], ids=["late"])
@in_fork(strict=True)
def test_a_lane_that_is_late_is_abandoned_as_a_whole(
    faults: list[dict[str, Any]], at: int, executor_limit: int, host_pointers: bool
) -> None:
    """Its memory comes back when its last kernel has ended. A step that had failed before keeps its error."""
    device = open_device(executor_limit=executor_limit)
    checked = at if at else None
    _, errors, _ = device.run_group(steps_of(checked), LANES, timeout_s=0.3)
    late = ["timeout"] * 2 + ([InvalidValueError, 2] if checked else ["timeout"] * 2) + ["timeout"]
    assert ends_of(errors) == [*late, None]
    state = device.state()
    assert (state.abandoned_count, state.leased_stream_count) == (1, 1)
    assert state.pool.allocated_bytes > 0
    wait_until_idle(device)
    reply, errors, _ = device.run_group(steps_of(), LANES)
    assert errors == [None] * (CHAIN + 2)
    assert_results(device, reply, list(range(CHAIN)))
    device.assert_idle()


@in_fork(host_pointers=False, strict=True, faults=[fault("hang", 0, duration_ms=700), fault("phase2_error", 2)])
def test_a_launch_that_fails_behind_a_late_kernel() -> None:
    device = open_device(executor_limit=8)
    _, errors, _ = device.run_group(steps_of(), LANES, timeout_s=0.3)
    assert ends_of(errors) == ["timeout"] * (CHAIN + 1) + [None]
    wait_until_idle(device)
    assert device.run_group(steps_of(), LANES)[1] == [None] * (CHAIN + 2)
    device.assert_idle()


@in_fork(faults=[fault("hang", 0, duration_ms=400)])
def test_a_cancelled_group_ends_with_the_lanes_that_have_begun() -> None:
    device = open_device(stream_limit=1)
    ticket, cancellation = device.submit_group(steps_of(), LANES[::-1])
    wait_until(lambda: device.state().leased_stream_count == 1)
    cancellation.cancel()
    reply, errors, _ = device.waiting.result(ticket)
    assert ends_of(errors) == [None] * (CHAIN + 1) + ["not_begun"]
    assert [str(each.detail) for each in errors if each] == ["its client has gone"]
    assert reply[: CHAIN * SIZE] == b"".join(alone_and_in_order(device, CHAIN))


@in_fork(faults=[hang(duration_ms=400)])
def test_a_group_may_be_waited_for_beyond_its_deadline() -> None:
    """No lane begins after it."""
    device = open_device(stream_limit=1)
    far = deadline(60)
    steps = [alone(CALL, CONTENTS)] * 2
    reply, errors, _ = device.run_group(steps, timeout_s=0.1, wait_until=far)
    assert ends_of(errors) == [None, "not_begun"]
    assert reply[:16] == device.execute(CALL, CONTENTS)
    assert device.state().abandoned_count == 0
