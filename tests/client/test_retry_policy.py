"""The retry policy on a clock and with chances of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from aclgrad import errors
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad._client.attempts.retry_budget import BURST
from aclgrad._client.channel.servers import Balancing

LOST = errors.ConnectionLostError("gone")
UNREACHED = errors.ServerUnreachableError("refused")
CUT = errors.CallCutError("ended")
BUSY = errors.ServerBusyError("full", retry_after_s=3.0)


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def policy(
    retries: int = 100,
    *,
    connect_timeout_s: float = 10.0,
    draw: Callable[[], float] = lambda: 1.0,
    clock: Callable[[], float] | None = None,
) -> RetryPolicy:
    return RetryPolicy(
        retries,
        connect_timeout_s,
        first_delay_s=0.5,
        longest_delay_s=5.0,
        longest_connect_delay_s=1.0,
        clock=clock or Clock(),
        draw=draw,
    )


FINAL = [
    errors.InvalidFieldError("wrong"),
    errors.MessageTooLargeError("large"),
    errors.LimitExceededError("alone too large"),
    errors.DeviceLostError("and nobody says that it comes back"),
    errors.DeadlinePassedError("late"),
    errors.CallCancelledError("closed"),
    errors.ServerFaultError("oops"),
    errors.AclgradError("whatever"),
]
ASKED = errors.ServerBusyError("full", retry_after_s=0.0)
# The policy, the time limit, and what happens: seconds that pass, or a failure and the delay that the call waits then.
COURSES: dict[str, tuple[dict[str, Any], float | None, list[Any]]] = {
    "delays double up to the longest": ({}, None, [(LOST, each) for each in (0.5, 1.0, 2.0, 4.0, 5.0, 5.0)]),
    "chances": ({"draw": iter([0.0, 0.25, 0.5]).__next__}, None, [(LOST, 0.0), (LOST, 0.25), (LOST, 1.0)]),
    "the delay of the server is a minimum": ({"draw": lambda: 0.0}, None, [(BUSY, 3.0), (BUSY, 3.0)]),
    # Clients that were told the same delay do not come back at the same moment.
    "those who waited part": ({}, None, [(BUSY, 3.5), (BUSY, 4.0)]),
    "no retry": ({"retries": 0}, None, [(LOST, None)]),
    "one retry": ({"retries": 1}, None, [(LOST, 0.5), (LOST, None)]),
    "very many": ({"retries": 1_100}, None, [(ASKED, each) for each in (0.5, 1.0, 2.0, 4.0, *[5.0] * 1_096, None)]),
    "a wait beyond the limit is not begun, and does not count": (
        {},
        20.0,
        [12.9, (BUSY, 3.5), (BUSY, None), (LOST, 1.0)],
    ),
    "what was cut is sent again once": ({}, None, [(LOST, 0.5), (CUT, 1.0), (LOST, 2.0), (CUT, None)]),
    "what was cut is a retry": ({"retries": 0}, None, [(CUT, None)]),
    "a call waits for a server whatever its retries": (
        {"retries": 0, "connect_timeout_s": 3.6},
        None,
        [*[(UNREACHED, each) for each in (0.5, 1.0, 1.0, 1.0, None)], (LOST, None)],
    ),
    "a wait for a server takes no retry": ({"retries": 1}, None, [(UNREACHED, 0.5), (LOST, 0.5), (LOST, None)]),
    "it starts anew when one was reached": (
        {"connect_timeout_s": 2.0},
        None,
        [
            *[(UNREACHED, 0.5), (UNREACHED, 1.0), (UNREACHED, None), 100.0],
            *[(LOST, 0.5), (UNREACHED, 0.5), (UNREACHED, 1.0), (UNREACHED, None)],
        ],
    ),
    "the time limit bounds it, too": ({}, 2.0, [(UNREACHED, 0.5), (UNREACHED, 1.0), (UNREACHED, None)]),
    **{
        f"{kind.__name__} that asks for a retry": ({}, None, [(kind("later", retry_after_s=0.0), 0.5)])
        for kind in errors.RetryableError.__subclasses__()
    },
    **{f"{error} is final": ({}, None, [(error, None)]) for error in FINAL},
}


@pytest.mark.parametrize(("settings", "timeout_s", "course"), COURSES.values(), ids=COURSES)
def test_delays(settings: dict[str, Any], timeout_s: float | None, course: list[Any]) -> None:
    clock = Clock()
    attempts = policy(**settings, clock=clock).start(timeout_s)
    for step in course:
        error, expected = step if isinstance(step, tuple) else (None, step)
        if error is not None:
            assert attempts.delay_after_s(error) == expected, step
        clock.now += expected or 0.0


def test_the_time_limit_is_that_of_all_attempts() -> None:
    clock = Clock()
    attempts = policy(clock=clock).start(10.0)
    assert attempts.time_left_s() == 10.0
    clock.now += 4.0
    assert attempts.time_left_s() == 6.0
    clock.now += 7.0
    assert attempts.time_left_s() == -1.0
    assert policy().start(None).time_left_s() is None


def test_a_deadline_tells_of_the_attempt_before() -> None:
    attempts = policy().start(None)
    attempts.delay_after_s(errors.CallCutError("cut", remedy="send less"))
    late = errors.DeadlinePassedError("late", remedy="give more time", request_id="5f0c")
    attempts.explain(late)
    told = "late; give more time; the attempt before it failed: cut; send less"
    assert (str(late), late.message, late.remedy, late.request_id) == (told, told, "send less", "5f0c")


def test_other_last_errors_stay_as_they_are() -> None:
    attempts = policy().start(None)
    only = errors.DeadlinePassedError("late", remedy="give more time")
    attempts.explain(only)
    attempts.delay_after_s(LOST)
    other = errors.ServerFaultError("oops")
    attempts.explain(other)
    assert (str(only), only.remedy, str(other)) == ("late; give more time", "give more time", "oops")


LATE = errors.DeadlinePassedError("no reply")


def test_attempts_have_a_third_of_what_is_left_and_the_last_has_all() -> None:
    clock = Clock()
    attempts = policy(0, clock=clock).start(81.0)
    shares = []
    while attempts.time_left_s():
        limit_s = attempts.limit_s(Balancing.LISTED, has_others=True)
        assert limit_s is not None
        shares.append(limit_s)
        clock.now += limit_s
        assert (attempts.delay_after_s(LATE) == 0.0) is attempts.may_fail_over
    assert shares == pytest.approx([27.0, 18.0, 36.0])
    assert attempts.report().retries == 2


@pytest.mark.parametrize(
    ("mib", "limits"), [(0, [3.0, 2.0, 4.0]), (2, [3.0, 2.0, 4.0]), (4, [4.0, 5.0]), (6, [9.0])], ids=str
)
def test_a_message_has_the_time_that_it_takes_over_a_slow_connection(mib: int, limits: list[float]) -> None:
    """Nobody sees whether a message moves. One that leaves no time for another attempt has all of it."""
    clock = Clock()
    attempts = policy(clock=clock).start(9.0)
    found = []
    while attempts.time_left_s():
        limit_s = attempts.limit_s(Balancing.LISTED, has_others=True, message_bytes=mib * 2**20)
        assert limit_s is not None
        found.append(round(limit_s, 9))
        clock.now += limit_s
    assert found == limits


def test_only_an_attempt_that_may_be_repeated_is_cut_short() -> None:
    """The budget is that of all calls: one retry for each of the first hundred."""
    made = policy(0)
    calls = [made.start(9.0) for _ in range(BURST + 1)]
    limits = [each.limit_s(Balancing.LISTED, has_others=True) for each in calls]
    assert limits == pytest.approx([3.0] * BURST + [9.0])
    assert not calls[-1].may_fail_over
    assert made.budget.left == 0
    # Those that were answered have not used theirs.
    for each in calls[:10]:
        each.release()
        each.release()
    assert made.budget.left == 10
    assert calls[10].delay_after_s(LATE) == 0.0
    calls[10].release()
    assert made.budget.left == 10


@pytest.mark.parametrize(("moved_s", "fails_over"), [(29.0, True), (31.0, False)])
def test_what_moved_for_longer_than_is_left_goes_to_no_other_server(moved_s: float, fails_over: bool) -> None:
    """The server may end it, by a limit of its own."""
    clock = Clock()
    attempts = policy(1, clock=clock).start(90.0)
    progress = attempts.follow_chunks(attempts.limit_s(Balancing.LISTED, has_others=True))
    clock.now += moved_s
    progress.moved()
    clock.now += 60.0 - moved_s
    late = errors.DeadlinePassedError("late")
    assert attempts.fails_over(late) is fails_over
    assert attempts.delay_after_s(late) == (0.0 if fails_over else None)
    attempts.explain(late)
    told = "late; it is not sent again: its bytes took 31.0 s, and 30.0 s of its time limit would be left"
    assert str(late).startswith("late (" if fails_over else told)
    # Another attempt has moved nothing yet.
    attempts.limit_s(Balancing.LISTED, has_others=True)
    assert attempts.delay_after_s(LOST) == 0.5


def test_an_attempt_that_no_other_server_can_take_over_is_the_last() -> None:
    clock = Clock()
    attempts = policy(0, clock=clock).start(9.0)
    clock.now += attempts.limit_s(Balancing.LISTED, has_others=True) or 0.0
    assert attempts.delay_after_s(LATE) == 0.0
    assert attempts.tried == set()
    assert attempts.limit_s(Balancing.LISTED, has_others=False) == pytest.approx(6.0)
    assert not attempts.fails_over(LATE)
    assert attempts.delay_after_s(LATE) is None


def test_a_call_that_moved_looks_for_a_server_from_then_on() -> None:
    """The server that it moved to may have ended meanwhile."""
    clock = Clock()
    attempts = policy(0, connect_timeout_s=10.0, clock=clock).start(60.0)
    clock.now += attempts.limit_s(Balancing.LISTED, has_others=True) or 0.0
    assert attempts.delay_after_s(LATE) == 0.0
    assert attempts.delay_after_s(UNREACHED) == 0.5


def test_each_message_of_a_batch_may_move() -> None:
    clock = Clock()
    attempts = policy(0, clock=clock).start(9.0)
    clock.now += 7.5
    another = attempts.of_another_message()
    assert another.limit_s(Balancing.LISTED, has_others=True) == pytest.approx(0.5)
    assert another.may_fail_over


def test_an_attempt_has_all_the_time_where_no_other_can_take_over() -> None:
    attempts = policy().start(9.0)
    assert attempts.limit_s(Balancing.ONE, has_others=False) == pytest.approx(9.0)
    assert attempts.delay_after_s(LATE) is None
    without_limit = policy().start(None)
    assert without_limit.limit_s(Balancing.LISTED, has_others=True) is None
    # The server has a limit of its own.
    assert without_limit.delay_after_s(LATE) == 0.0


def test_a_move_leaves_the_retries() -> None:
    attempts = policy(1).start(90.0)
    attempts.limit_s(Balancing.LISTED, has_others=True)
    assert attempts.delay_after_s(LATE) == 0.0
    assert attempts.delay_after_s(LOST) == 0.5
    assert attempts.delay_after_s(LOST) is None


@pytest.mark.parametrize("error", [UNREACHED, errors.MethodNotServedError("not here")])
def test_the_front_door_is_left_where_nobody_is_at_the_workers_ports(error: errors.AclgradError) -> None:
    attempts = policy(0, connect_timeout_s=0).start(9.0)
    attempts.limit_s(Balancing.WORKERS, has_others=True)
    assert attempts.delay_after_s(error) == 0.0
    attempts.limit_s(Balancing.ONE, has_others=False)
    assert attempts.delay_after_s(error) is None
    attempts.limit_s(Balancing.WORKERS, has_others=True)
    assert attempts.delay_after_s(error) is None
