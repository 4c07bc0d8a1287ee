"""The retry policy on a clock and with chances of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from aclgrad import errors
from aclgrad._client.attempts.retry import Attempts, RetryPolicy
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


def delays(attempts: Attempts, error: errors.AclgradError, count: int) -> list[float | None]:
    return [attempts.delay_after_s(error) for _ in range(count)]


def test_delays_double_up_to_the_longest() -> None:
    assert delays(policy().start(None), LOST, 6) == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_delay_is_anything_from_none_to_the_full_one() -> None:
    chances = iter([0.0, 0.25, 0.5])
    assert delays(policy(draw=lambda: next(chances)).start(None), LOST, 3) == [0.0, 0.25, 1.0]


def test_the_delay_of_the_server_is_a_minimum() -> None:
    assert delays(policy(draw=lambda: 0.0).start(None), BUSY, 2) == [3.0, 3.0]
    # Clients that were told the same delay do not come back at the same moment.
    assert delays(policy().start(None), BUSY, 2) == [3.5, 4.0]


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_attempts_beyond_the_first_are_counted(retries: int) -> None:
    attempts = policy(retries).start(None)
    assert [delay is not None for delay in delays(attempts, LOST, retries + 2)] == [True] * retries + [False] * 2


def test_many_retries_stay_at_the_longest_delay() -> None:
    attempts = policy(1_000).start(None)
    asked = errors.ServerBusyError("full", retry_after_s=0.0)
    assert set(delays(attempts, asked, 1_000)[10:]) == {5.0}


def test_the_time_limit_is_that_of_all_attempts() -> None:
    clock = Clock()
    attempts = policy(clock=clock).start(10.0)
    assert attempts.time_left_s() == 10.0
    clock.now += 4.0
    assert attempts.time_left_s() == 6.0
    clock.now += 7.0
    assert attempts.time_left_s() == -1.0
    assert policy().start(None).time_left_s() is None


def test_a_wait_beyond_the_time_limit_is_not_begun() -> None:
    clock = Clock()
    attempts = policy(clock=clock).start(10.0)
    clock.now += 6.4
    assert attempts.delay_after_s(BUSY) == 3.5
    clock.now += 0.1
    assert attempts.delay_after_s(BUSY) is None
    assert attempts.delay_after_s(LOST) == 1.0, "a retry that was not made does not count"


def test_a_call_that_was_cut_is_sent_again_once() -> None:
    assert delays(policy().start(None), CUT, 2) == [0.5, None]
    assert delays(policy(0).start(None), CUT, 1) == [None]
    attempts = policy().start(None)
    assert [attempts.delay_after_s(each) for each in (LOST, CUT, LOST, CUT)] == [0.5, 1.0, 2.0, None]


def look(attempts: Attempts, clock: Clock, error: errors.AclgradError) -> float | None:
    """Fails at once and then waits for as long as it is told to."""
    delay_s = attempts.delay_after_s(error)
    clock.now += delay_s or 0.0
    return delay_s


@pytest.mark.parametrize("retries", [0, 4])
def test_a_call_waits_for_a_server_whatever_its_retries(retries: int) -> None:
    clock = Clock()
    attempts = policy(retries, connect_timeout_s=3.6, clock=clock).start(None)
    assert [look(attempts, clock, UNREACHED) for _ in range(5)] == [0.5, 1.0, 1.0, 1.0, None]
    assert [look(attempts, clock, LOST) is not None for _ in range(5)] == [True] * retries + [False] * (5 - retries)


def test_the_wait_for_a_server_starts_anew_when_one_was_reached() -> None:
    clock = Clock()
    attempts = policy(clock=clock, connect_timeout_s=2.0).start(None)
    assert [look(attempts, clock, UNREACHED) for _ in range(3)] == [0.5, 1.0, None]
    clock.now += 100.0
    assert look(attempts, clock, LOST) == 0.5
    assert [look(attempts, clock, UNREACHED) for _ in range(3)] == [0.5, 1.0, None]


def test_the_time_limit_bounds_the_wait_for_a_server_too() -> None:
    clock = Clock()
    attempts = policy(clock=clock).start(2.0)
    assert [look(attempts, clock, UNREACHED) for _ in range(3)] == [0.5, 1.0, None]


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


def test_other_errors_are_final() -> None:
    assert [policy().start(None).delay_after_s(error) for error in FINAL] == [None] * len(FINAL)


def test_a_delay_of_the_server_asks_for_a_retry() -> None:
    for kind in errors.RetryableError.__subclasses__():
        assert policy().start(None).delay_after_s(kind("later", retry_after_s=0.0)) == 0.5


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
        assert (attempts.delay_after_s(LATE) == 0.0) is attempts.may_move
    assert shares == pytest.approx([27.0, 18.0, 36.0])
    assert attempts.report().retries == 2


def test_only_an_attempt_that_may_be_repeated_is_cut_short() -> None:
    """The budget is that of all calls: one retry for each of the first hundred."""
    made = policy(0)
    calls = [made.start(9.0) for _ in range(BURST + 1)]
    limits = [each.limit_s(Balancing.LISTED, has_others=True) for each in calls]
    assert limits == pytest.approx([3.0] * BURST + [9.0])
    assert not calls[-1].may_move
    assert made.budget.left == 0
    # Those that were answered have not used theirs.
    for each in calls[:10]:
        each.release()
        each.release()
    assert made.budget.left == 10
    assert calls[10].delay_after_s(LATE) == 0.0
    calls[10].release()
    assert made.budget.left == 10


def test_an_attempt_that_no_other_server_can_take_over_is_the_last() -> None:
    clock = Clock()
    attempts = policy(0, clock=clock).start(9.0)
    clock.now += attempts.limit_s(Balancing.LISTED, has_others=True) or 0.0
    assert attempts.delay_after_s(LATE) == 0.0
    assert attempts.tried == set()
    assert attempts.limit_s(Balancing.LISTED, has_others=False) == pytest.approx(6.0)
    assert not attempts.moves(LATE)
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
    assert another.may_move


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
