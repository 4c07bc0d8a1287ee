"""The judge of growth can fail: each planted leak is caught; noise, saw-teeth, settling and restarts are not."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tools.lab.growth import LIMITS, Sample, Verdict, judge

WARM_UP_S, INTERVAL_S, RUN_S = 150.0, 15.0, 1800.0
RESTARTS = (0.0, 480.0, 900.0, RUN_S)
"""Starts of three processes, and the end of the last."""
BASE = {"RSS": 300.0, "PSS": 250.0, "files": 40, "threads": 30, "connections": 12, "pool": 64.0, "p50": 4.0, "p99": 20}
NOISE = {"RSS": 2.0, "PSS": 2.0, "files": 1.5, "threads": 1.0, "connections": 1.5, "pool": 1.0, "p50": 0.4, "p99": 6.0}
PER_HOUR = {"RSS": 100.0, "PSS": 100.0, "files": 60.0, "threads": 30.0, "connections": 60.0, "pool": 100.0}
"""Planted: some 1.5 MiB or half a file a minute."""
BOUNDS = pytest.mark.parametrize("bounds", [(0.0, RUN_S), RESTARTS], ids=["one_life", "restarts"])


def verdict(
    figure: str, value: Callable[[float, float], float], bounds: tuple[float, ...] = (0.0, RUN_S), seed: int = 0
) -> Verdict:
    """Judges noise of which `value`, of the seconds of the run and of the life, makes something."""
    generator = np.random.default_rng(seed)
    told = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        for seconds in np.arange(start, end, INTERVAL_S):
            flat = BASE[figure] + NOISE[figure] * generator.standard_normal()
            told.append(Sample(seconds, "worker", str(number), figure, flat * value(seconds, seconds - start)))
    (only,) = judge(told, WARM_UP_S)
    return only


@BOUNDS
@pytest.mark.parametrize("figure", PER_HOUR)
def test_a_planted_leak_is_caught(figure: str, bounds: tuple[float, ...]) -> None:
    """A restart gives back what leaked, and hides nothing."""
    found = verdict(figure, lambda _, age: 1 + PER_HOUR[figure] / BASE[figure] * age / 3600, bounds)
    assert found.problem
    assert found.per_hour == pytest.approx(PER_HOUR[figure], rel=0.3)


@pytest.mark.parametrize("figure", ["p50", "p99"])
def test_calls_that_become_slower_are_caught(figure: str) -> None:
    assert verdict(figure, lambda seconds, _: 1 + 2 * seconds / RUN_S).problem


HARMLESS: dict[str, tuple[tuple[float, ...], Callable[[float, float], float]]] = {
    "noise": ((0.0, RUN_S), lambda *_: 1),
    "noise_of_three": (RESTARTS, lambda *_: 1),
    "saw_teeth": ((0.0, RUN_S), lambda seconds, _: 1 + 0.3 * (seconds % 300) / 300),
    # Each process is larger than the one before, and doubles until it has settled.
    "settling": (RESTARTS, lambda seconds, age: 1 + (seconds - age) / 480 + min(age, WARM_UP_S) / WARM_UP_S),
    # Those in which a worker was killed.
    "slow_intervals": ((0.0, RUN_S), lambda seconds, _: 50 if seconds in (450.0, 900.0, 1350.0) else 1),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("bounds", "value"), HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_growth(bounds: tuple[float, ...], value: Callable[..., float], seed: int) -> None:
    assert {figure: verdict(figure, value, bounds, seed).problem for figure in BASE} == dict.fromkeys(BASE, "")


@pytest.mark.parametrize(("leaked_mib", "is_caught"), [(30.0, False), (100.0, True)])
def test_a_run_that_is_too_short_to_settle_catches_large_leaks_only(leaked_mib: float, is_caught: bool) -> None:
    told = [Sample(second, "worker", "1", "RSS", 300 + leaked_mib * second / 40) for second in range(40)]
    assert bool(judge(told, 4.0)[0].problem) == is_caught


def test_what_was_not_measured_keeps_no_limit() -> None:
    assert verdict("RSS", lambda *_: 1, (0.0, WARM_UP_S)).problem
    assert verdict("RSS", lambda seconds, _: math.nan if seconds == 600 else 1).problem
    assert set(BASE) | {"shared memory"} == set(LIMITS)
