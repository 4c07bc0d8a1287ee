"""The soak can fail: it sees growth, a call that failed, and calls or a restart that were missing."""

from collections import Counter
from collections.abc import Callable

import pytest
from rich.console import Console

from tools.lab.growth import SETTLED_S, Sample
from tools.lab.history import Event
from tools.lab.soak.run import Run, Schedule, seconds_of, table
from tools.lab.soak.scene import SHARES


def ended(outcome: str) -> list[Event]:
    about = {"operation": "x", "client": "tasks/calls", "method": "unary", "servers": ["a", "b"], "deadline_s": 60.0}
    end = {"outcome": outcome, "error": "ServerBusyError", "is_typed": True, "retries": 0}
    return [{"kind": "begin", "time": 1.0, **about}, {"kind": "end", "time": 2.0, "operation": "x", **end}]


def good_run() -> Run:
    schedule = Schedule(1800)
    run = Run(schedule, ends=Counter({f"{kind}: right": 10 for kind in SHARES}))
    run.samples = [Sample(15.0 * turn, "worker", "1", "RSS", 300.0) for turn in range(120)]
    run.restarts = [(450.0 * turn, "kill -9") for turn in range(1, schedule.restarts + 1)]
    run.take(1.0, ended("right"), "copies")
    return run


def grow(run: Run) -> None:
    run.samples = [Sample(each.seconds, "worker", "1", "RSS", 300 + each.seconds) for each in run.samples]


SPOILED: dict[str, tuple[Callable[[Run], object], str]] = {
    "growth": (grow, "worker: RSS: more than"),
    "failed_call": (lambda run: run.take(1.0, ended("error"), "copies"), "P3 an operation with a healthy sibling"),
    "wrong_gradient": (lambda run: run.take(1.0, ended("wrong"), "copies"), "P1 a gradient is wrong"),
    "no_call": (lambda run: run.take(1.0, [], "copies"), "P2 the history has no operation"),
    "missing_kind": (lambda run: run.ends.pop("shared: right"), "no call of the kind 'shared'"),
    "missing_restart": (lambda run: run.restarts.pop(), "2 restarts instead of 3"),
    "fault": (lambda run: run.faults.append("broken off"), "broken off"),
}


@pytest.mark.parametrize(("spoil", "told"), SPOILED.values(), ids=SPOILED)
def test_what_fails_a_run(spoil: Callable[[Run], object], told: str) -> None:
    run = good_run()
    assert run.problems() == []
    spoil(run)
    (problem,) = run.problems()
    assert problem.startswith(told)
    console = Console(width=125)
    with console.capture() as captured:
        console.print(table(run.verdicts()))
    assert ("GROWS" in captured.get()) == (spoil is grow)


@pytest.mark.parametrize(("text", "seconds"), [("600", 600), ("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_durations(text: str, seconds: float) -> None:
    schedule = Schedule(seconds_of(text))
    assert schedule.seconds == seconds
    assert schedule.restarts >= 3
    assert (schedule.life_s - schedule.warm_up_s) / schedule.round_s >= 10
    assert (schedule.warm_up_s == SETTLED_S) == (seconds >= 1800)
