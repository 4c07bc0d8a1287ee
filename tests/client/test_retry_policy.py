"""The retry policy on a clock and with chances of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from aclgrad import errors
from aclgrad._retry import Attempts, RetryPolicy

LOST = errors.ConnectionLostError("gone")
BUSY = errors.ServerBusyError("full", retry_after_s=3.0)


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def policy(
    retries: int = 100, *, draw: Callable[[], float] = lambda: 1.0, clock: Callable[[], float] | None = None
) -> RetryPolicy:
    return RetryPolicy(retries, first_delay_s=0.5, longest_delay_s=5.0, clock=clock or Clock(), draw=draw)


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
    attempts = policy(10_000).start(None)
    assert set(delays(attempts, LOST, 10_000)[10:]) == {5.0}


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


FINAL = [
    errors.InvalidFieldError("wrong"),
    errors.MessageTooLargeError("large"),
    errors.DeviceMemoryError("alone too large"),
    errors.DeviceLostError("and nobody says that it comes back"),
    errors.DeadlinePassedError("late"),
    errors.CallCancelledError("closed"),
    errors.ServerFaultError("oops"),
    errors.AclgradError("whatever"),
]


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
def test_other_errors_are_final(error: errors.AclgradError) -> None:
    assert policy().start(None).delay_after_s(error) is None


RETRYABLE = [kind("later", retry_after_s=0.0) for kind in errors.RetryableError.__subclasses__()]


@pytest.mark.parametrize("error", RETRYABLE, ids=lambda error: type(error).__name__)
def test_a_delay_of_the_server_asks_for_a_retry(error: errors.AclgradError) -> None:
    assert policy().start(None).delay_after_s(error) == 0.5


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(ValueError, match="retries is -1; give 0 or more"):
        RetryPolicy(-1)
