"""Who spends faster than the rate waits, and nobody for longer than the longest pause."""

import pytest

from aclgrad_server.calls.open_calls import Throttle
from tests.server.fakes import Clock

A, B = "identity:a", "identity:b"


def test_only_who_spends_faster_than_the_rate_waits_and_never_longer_than_the_longest_pause() -> None:
    clock = Clock()
    throttle = Throttle(10, 3, clock)
    throttle.spend(A, 5)
    assert throttle.delay_s(A) == pytest.approx(0.5)
    assert throttle.delay_s(B) <= 0
    clock.now_s += 0.5
    assert throttle.delay_s(A) <= 0
    throttle.spend(A, 1e6)
    assert throttle.delay_s(A) == pytest.approx(3)


def test_the_time_that_units_took_counts() -> None:
    """What is received at the rate itself never waits."""
    clock = Clock()
    clock.now_s = 100
    throttle = Throttle(10, 3, clock)
    throttle.spend(A, 5, seconds=0.2)
    assert throttle.delay_s(A) == pytest.approx(0.3)
    clock.now_s += 5
    throttle.spend(A, 5, seconds=5)
    assert throttle.delay_s(A) <= 0
    assert not throttle._free_at  # noqa: SLF001 - what it keeps is the point
    throttle.spend(A, 40, seconds=600)
    assert throttle.delay_s(A) == pytest.approx(1), "no more than the longest pause counts"


def test_callers_that_need_not_wait_are_forgotten() -> None:
    clock = Clock()
    throttle = Throttle(10, 3, clock)
    for number in range(100):
        throttle.spend(str(number), 1)
        clock.now_s += 1
    assert len(throttle._free_at) == 1  # noqa: SLF001 - what it keeps is the point
