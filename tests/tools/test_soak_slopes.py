"""The soak can fail: planted growth of each kind is caught; noise, saw-teeth, settling and restarts are not."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tools.soak.slopes import LIMITS, Sample, Verdict, judge

MINUTE_S = 60.0
WARM_UP_S = 150.0
INTERVAL_S = 15.0
RUN_S = 30 * MINUTE_S

RESTARTS = (0.0, 8 * MINUTE_S, 15 * MINUTE_S, RUN_S)
"""Starts of three processes, and the end of the last."""
BASE = {"RSS": 300.0, "PSS": 250.0, "files": 40, "threads": 30, "connections": 12, "pool": 64.0, "p50": 4.0, "p99": 20}
NOISE = {"RSS": 2.0, "PSS": 2.0, "files": 1.5, "threads": 1.0, "connections": 1.5, "pool": 1.0, "p50": 0.4, "p99": 6.0}
PER_HOUR = {"RSS": 100.0, "PSS": 100.0, "files": 60.0, "threads": 30.0, "connections": 60.0, "pool": 100.0}
"""Planted: some 1.5 MiB or half a file a minute."""


def samples(
    figure: str, value: Callable[[float, float], float], bounds: tuple[float, ...] = (0.0, RUN_S)
) -> list[Sample]:
    """Samples of processes that live between the bounds; `value` takes the seconds of the run and of the life."""
    told = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        for seconds in np.arange(start, end, INTERVAL_S):
            told.append(Sample(seconds, "worker", str(number), figure, value(seconds, seconds - start)))
    return told


def verdict(told: list[Sample], warm_up_s: float = WARM_UP_S) -> Verdict:
    (only,) = judge(told, warm_up_s)
    return only


def noise(figure: str, seed: int = 0) -> Callable[[], float]:
    generator = np.random.default_rng(seed)
    return lambda: BASE[figure] + NOISE[figure] * generator.standard_normal()


@pytest.mark.parametrize("bounds", [(0.0, RUN_S), RESTARTS], ids=["one_life", "restarts"])
@pytest.mark.parametrize("figure", PER_HOUR)
def test_a_planted_leak_is_caught(figure: str, bounds: tuple[float, ...]) -> None:
    """A restart gives back what leaked, and hides nothing."""
    flat, per_s = noise(figure), PER_HOUR[figure] / 3600
    found = verdict(samples(figure, lambda _, age: flat() + per_s * age, bounds))
    assert found.problem
    assert found.per_hour == pytest.approx(PER_HOUR[figure], rel=0.25)


@pytest.mark.parametrize("figure", ["p50", "p99"])
def test_calls_that_become_slower_are_caught(figure: str) -> None:
    flat = noise(figure)
    found = verdict(samples(figure, lambda seconds, _: flat() * (1 + 2 * seconds / RUN_S)))
    assert found.problem


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bounds", [(0.0, RUN_S), RESTARTS], ids=["one_life", "restarts"])
@pytest.mark.parametrize("figure", BASE)
def test_noise_is_no_growth(figure: str, bounds: tuple[float, ...], seed: int) -> None:
    flat = noise(figure, seed)
    assert verdict(samples(figure, lambda *_: flat(), bounds)).problem == ""


@pytest.mark.parametrize("period_s", [2 * MINUTE_S, 5 * MINUTE_S])
@pytest.mark.parametrize("figure", BASE)
def test_saw_teeth_are_no_growth(figure: str, period_s: float) -> None:
    """A cache that fills and is emptied, such as a heap between two trims."""
    flat = noise(figure)
    found = verdict(samples(figure, lambda seconds, _: flat() * (1 + 0.3 * (seconds % period_s) / period_s)))
    assert found.problem == ""


@pytest.mark.parametrize("figure", PER_HOUR)
def test_neither_a_restart_nor_what_follows_it_is_growth(figure: str) -> None:
    """Each process is larger than the one before, and doubles until it has settled."""
    flat = noise(figure)

    def value(seconds: float, age: float) -> float:
        return flat() * (1 + (seconds - age) / 480 + min(age, WARM_UP_S) / WARM_UP_S)

    assert verdict(samples(figure, value, RESTARTS)).problem == ""


def test_some_slow_intervals_are_no_growth() -> None:
    """Those in which a worker was killed."""
    flat = noise("p99")
    restarts = (450.0, 900.0, 1350.0, 1365.0)
    assert verdict(samples("p99", lambda seconds, _: flat() * (50 if seconds in restarts else 1))).problem == ""


@pytest.mark.parametrize(("leaked_mib", "is_caught"), [(30.0, False), (100.0, True)])
def test_a_run_that_is_too_short_to_settle_catches_large_leaks_only(leaked_mib: float, is_caught: bool) -> None:
    told = [Sample(second, "worker", "1", "RSS", 300 + leaked_mib * second / 40) for second in range(40)]
    assert bool(verdict(told, 4.0).problem) == is_caught


def test_what_was_not_measured_keeps_no_limit() -> None:
    short = samples("RSS", lambda *_: 300.0, (0.0, WARM_UP_S))
    assert verdict(short).problem
    assert verdict(short, WARM_UP_S - INTERVAL_S).problem == ""
    assert verdict(samples("RSS", lambda seconds, _: math.nan if seconds == 600 else 300.0)).problem


def test_kinds_of_processes_are_judged_apart() -> None:
    told = samples("RSS", lambda *_: 300.0)
    grown = [Sample(each.seconds, "client", "1", "RSS", each.value + each.seconds) for each in told]
    assert [(each.subject, bool(each.problem)) for each in judge([*told, *grown], WARM_UP_S)] == [
        ("worker", False),
        ("client", True),
    ]


def test_every_figure_has_a_limit() -> None:
    assert set(BASE) | {"shared memory"} == set(LIMITS)
