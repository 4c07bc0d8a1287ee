"""Calls are counted once each, under labels that no client can add to, and rates are those of the last minute."""

from dataclasses import dataclass, field

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad_server.statistics import (
    STAGES,
    WINDOW_S,
    CallStatistics,
    Histogram,
    OperatorAndReason,
    Outcome,
    RecentCalls,
)

POOL, PAD = "adaptive_avg_pool2d_backward", "replication_pad2d_backward"
UNARY, PROGRAM, CHUNKED = "ExecuteOperator", "ExecuteProgram", "ExecuteProgramChunked"


@dataclass
class Ended:
    """A call that took a millisecond for each stage."""

    method: str = UNARY
    operator: str = POOL
    outcome: str = "OK"
    start: float = 100.0
    stage_since: float = 100.005
    received_bytes: int = 10
    sent_bytes: int = 20
    stages_s: list[float] = field(default_factory=lambda: [0.001] * len(STAGES))
    items: dict[OperatorAndReason, int] = field(default_factory=dict)
    step_count: int = 1
    work_s: float = 0.0


def counted(*calls: Ended) -> CallStatistics:
    statistics = CallStatistics()
    for each in calls:
        statistics.add(each)
    return statistics


def test_each_kind_of_call_is_counted_once() -> None:
    items = {(POOL, "OK"): 3, (PAD, "OK"): 0, (PAD, "INVALID_FIELD"): 1, ("-", "UNKNOWN_OPERATOR"): 2}
    statistics = counted(
        Ended(),
        Ended(),
        Ended(outcome="SERVER_BUSY"),
        Ended(outcome="CANCELLED", operator="-"),
        Ended(PROGRAM, "program of 6", items=items, step_count=6),
        Ended(PROGRAM, "-", "MALFORMED_REQUEST"),
        Ended(CHUNKED, POOL, items={(POOL, "OK"): 1}),
        Ended("ListOperators", "-"),
    )
    assert {key: count for key, count in statistics.calls().items() if count} == {
        (POOL, UNARY, "OK"): 2,
        (POOL, UNARY, "SERVER_BUSY"): 1,
        ("none", UNARY, "CANCELLED"): 1,
        (POOL, PROGRAM, "OK"): 3,
        (PAD, PROGRAM, "INVALID_FIELD"): 1,
        ("unknown", PROGRAM, "UNKNOWN_OPERATOR"): 2,
        ("none", PROGRAM, "MALFORMED_REQUEST"): 1,
        (POOL, CHUNKED, "OK"): 1,
    }
    assert statistics.rpcs() == {
        (UNARY, "OK"): 2,
        (UNARY, "SERVER_BUSY"): 1,
        (UNARY, "CANCELLED"): 1,
        (PROGRAM, "OK"): 1,
        (PROGRAM, "MALFORMED_REQUEST"): 1,
        (CHUNKED, "OK"): 1,
        ("ListOperators", "OK"): 1,
    }
    # Failed calls are in no stage; each lasted 5 ms, whatever became of it.
    assert [each.count for each in statistics.stages] == [5] * len(STAGES)
    row = statistics.rows[UNARY, POOL]
    assert (row.received_bytes, row.sent_bytes) == (30, 60)
    assert row.durations.counts == [3 if number == 13 else 0 for number in range(64)]


def test_programs_are_counted_by_their_steps_and_their_work() -> None:
    """Those that were answered, whatever became of their steps."""
    sizes = [1, 2, 3, 4, 5, 4096]
    programs = [Ended(PROGRAM, "-", items={(POOL, "OK"): each}, step_count=each, work_s=each / 1e3) for each in sizes]
    refused = Ended(PROGRAM, "-", "LIMIT_EXCEEDED", step_count=7, work_s=1.0)
    statistics = counted(*programs, refused, Ended(), Ended("ListOperators", "-"))
    steps, work = statistics.program_steps, statistics.program_work
    for number in range(13):
        assert sum(steps.counts[: number + 1]) == sum(each <= 2**number for each in sizes)
    assert (steps.count, steps.total) == (len(sizes), sum(sizes))
    assert (work.count, work.total) == (len(sizes), pytest.approx(sum(sizes) / 1e3))


def test_names_that_clients_make_up_are_no_labels() -> None:
    statistics = counted(*(Ended(operator=f"made up {number}", outcome="UNKNOWN_OPERATOR") for number in range(1000)))
    assert statistics.calls() == {("unknown", UNARY, "UNKNOWN_OPERATOR"): 1000}
    assert set(statistics.rows) == {(UNARY, "unknown")}
    assert statistics.outcomes() == {Outcome("unknown", UNARY, "UNKNOWN_OPERATOR"): 1000}
    # Not even a name that is one of our labels.
    for name in ("none", "unknown", "none"):
        statistics.add(Ended(operator=name, outcome="UNKNOWN_OPERATOR"))
    assert statistics.last_failures.keys() == statistics.outcomes().keys()
    assert statistics.outcomes().total() == 1003


def test_every_failure_is_counted_and_none_hides_another() -> None:
    """Neither many failures for one reason nor those of another operator; a call that was cancelled did not fail."""
    steps, unknown = {(PAD, "INVALID_FIELD"): 3, (PAD, "OK"): 4}, Ended("ListOperators", "-", "UNAUTHENTICATED")
    busy = Ended(operator=PAD, outcome="SERVER_BUSY"), *[Ended(outcome="SERVER_BUSY")] * 10_000
    statistics = counted(*busy, Ended(PROGRAM, "-", items=steps), Ended(outcome="CANCELLED"), unknown)
    outcomes = statistics.outcomes()
    assert {each: outcomes[each] for each in statistics.last_failures} == {
        (PAD, UNARY, "SERVER_BUSY"): 1,
        (POOL, UNARY, "SERVER_BUSY"): 10_000,
        (PAD, PROGRAM, "INVALID_FIELD"): 3,
        ("none", "ListOperators", "UNAUTHENTICATED"): 1,
    }


def test_failures_of_the_last_minute_are_those_of_the_last_minute() -> None:
    now_s = 0.0
    statistics = CallStatistics()
    recent = RecentCalls(statistics, Histogram(), lambda: now_s)
    busy, wrong = Outcome(POOL, UNARY, "SERVER_BUSY"), Outcome("none", "ListOperators", "UNAUTHENTICATED")
    for _ in range(300):
        now_s += 1
        statistics.add(Ended(outcome="SERVER_BUSY"))
        if now_s <= 100:
            statistics.add(Ended("ListOperators", "-", "UNAUTHENTICATED"))
        recent.sweep()
    assert statistics.outcomes() == {busy: 300, wrong: 100}
    found = recent.outcomes()
    assert abs(found[busy] - WINDOW_S) <= 5
    assert found[wrong] == 0


def test_rates_are_those_of_the_last_minute() -> None:
    now_s = 0.0
    statistics, loop_lag = CallStatistics(), Histogram()
    recent = RecentCalls(statistics, loop_lag, lambda: now_s)
    assert recent.by_operator() == {}
    for _ in range(600):  # five minutes, ten calls each second of the last one
        now_s += 0.5
        loop_lag.add(0.001 if now_s > 230 else 1.0)
        if now_s > 240:
            statistics.add(Ended("ExecuteProgram", "-", items={(POOL, "OK"): 0}))
            for operator in OPERATORS:
                for outcome in ("OK", "OK", "OK", "SERVER_BUSY", "CANCELLED"):
                    statistics.add(Ended(operator=operator, outcome=outcome))
        else:
            statistics.add(Ended(operator=POOL, outcome="INVALID_FIELD", stage_since=160.0))
        recent.sweep()
    per_second, durations = recent.programs()
    assert abs(per_second - 2) < 0.2
    assert abs(durations.count - 2 * WINDOW_S) <= 10
    found = recent.by_operator()
    assert set(found) == set(OPERATORS)
    for calls_per_s, durations in found.values():
        assert abs(calls_per_s - 10) < 1
        assert 0.004 < durations.quantile_s(0.5) < 0.008
    lag_s = recent.loop_lag().quantile_s(0.99)
    assert lag_s is not None
    assert lag_s < 0.01
    now_s += 3600  # the main loop hung for an hour
    assert recent.by_operator() == {}
