"""The pace of callers, on a clock of the test's own."""

import pytest

from aclgrad_server.calls.pace import Pace

A, B = "ipv4:192.0.2.1", "ipv4:192.0.2.2"


def test_only_who_spends_faster_than_the_rate_waits_and_never_longer_than_the_longest_pause() -> None:
    now = [1000.0]
    pace = Pace(10, 3, lambda: now[0])
    pace.spend(A, 5)
    assert pace.delay_s(A) == pytest.approx(0.5)
    assert pace.delay_s(B) <= 0
    now[0] += 0.5
    assert pace.delay_s(A) <= 0
    pace.spend(A, 1e6)
    assert pace.delay_s(A) == pytest.approx(3)


def test_callers_that_need_not_wait_are_forgotten() -> None:
    now = [1000.0]
    pace = Pace(10, 3, lambda: now[0])
    for number in range(100):
        pace.spend(str(number), 1)
        now[0] += 1
    assert len(pace._free_at) == 1  # noqa: SLF001 - what it keeps is the point
