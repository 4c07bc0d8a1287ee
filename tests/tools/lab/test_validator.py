"""The validator on histories made by hand: a good one passes, and each planted violation is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.lab.chaos.summary import TITLES, table_of, totals_of
from tools.lab.history import Event, History, merged, read
from tools.lab.host import longest_pause_s
from tools.lab.rolling import problems_of
from tools.lab.validator import FULL_SERVICE_S, RETRY_BURST, judge

HOST = ("A/0", "A/1", "B/0")


class Made:
    """A history that is put together by hand: an operation a tenth of a second, and one fault of worker 1."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        for number in range(100):
            self.operation(f"c-{number}", begin=number / 10, seconds=0.05)
        self.fault(1, "kill", ["A/1"], begin=3.0, detected=3.2, whole=6.0)

    def operation(
        self, name: str, begin: float = 4.0, seconds: float | None = 0.05, deadline_s: float = 10.0, **end: Any
    ) -> None:
        """Adds an operation that ends well; without `seconds` it has no end."""
        told = {key: end.pop(key) for key in ("servers", "client") if key in end}
        started = {"client": "c", "method": "unary", "servers": HOST} | told
        self.events.append({"time": begin, "kind": "begin", "operation": name, "deadline_s": deadline_s, **started})
        if seconds is not None:
            ended = {"outcome": "right", "retries": 0} | end
            self.events.append({"time": begin + seconds, "kind": "end", "operation": name, **ended})

    def failed(self, name: str, seconds: float = 1.0, **values: Any) -> None:
        error = {"outcome": "error", "error": "ConnectionLostError", "is_typed": True, "is_retryable": True}
        self.operation(name, seconds=seconds, **(error | values))

    def fault(self, number: int, name: str, hits: list[str], at_once: int = 0, **phases: float) -> None:
        about = {"kind": "fault", "number": number, "name": name, "hits": hits, "at_once": at_once}
        self.events += [about | {"phase": phase, "time": time} for phase, time in phases.items()]

    def end(self, name: str, time: float) -> None:
        self.events.append({"time": time, "kind": "end", "operation": name, "outcome": "right", "retries": 0})

    def lag(self, time: float, seconds: float) -> None:
        self.events.append({"time": time, "kind": "lag", "process": "c", "seconds": seconds})

    def judged(self) -> list[tuple[str, tuple[str, ...]]]:
        """Returns the promise and the operations of each violation."""
        found = judge(merged(self.events))
        return [(each.promise, tuple(text.split()[0] for text in each.operations)) for each in found]


def test_a_history_without_violations_passes() -> None:
    made = Made()
    # What is no violation: no promise for a short deadline, for one server, or if all servers have faults.
    made.failed("short", deadline_s=2.0)
    made.failed("alone", servers=["A/1"])
    made.fault(2, "supervisor", ["A/0", "B/0"], begin=4.5, detected=4.6, whole=5.0)
    made.failed("all_down", seconds=1.0)
    made.operation("retried", retries=4)
    made.fault(3, "slow_device", ["A/0"], begin=20.0, whole=29.0)
    assert made.judged() == []


def test_a_history_of_nothing_proves_nothing() -> None:
    made = Made()
    made.events = [event for event in made.events if event["kind"] == "fault"]
    assert made.judged() == [("P2", ())]


PLANTED: dict[str, tuple[Callable[[Made], object], str, str]] = {
    "wrong_gradient": (lambda made: made.operation("x", outcome="wrong"), "P1", "x"),
    "dropped_reply": (lambda made: made.operation("x", seconds=None), "P2", "x"),
    "double_answer": (lambda made: made.end("c-7", 2.0), "P2", "c-7"),
    "answer_to_nobody": (lambda made: made.end("never", 2.0), "P2", "never"),
    "late_error": (lambda made: made.failed("x", seconds=3.5, deadline_s=2.0), "P2", "x"),
    "late_gradient": (lambda made: made.operation("x", seconds=12.0), "P2", "x"),
    "untyped_error": (lambda made: made.failed("x", deadline_s=2.0, is_typed=False), "P2", "x"),
    "failed_with_a_sibling": (lambda made: made.failed("x"), "P3", "x"),
    "failed_without_a_fault": (lambda made: made.failed("x", begin=8.0), "P3", "x"),
}


@pytest.mark.parametrize(("plant", "promise", "operation"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_named(plant: Callable[[Made], object], promise: str, operation: str) -> None:
    made = Made()
    plant(made)
    assert made.judged() == [(promise, (operation,))]


def test_the_first_violation_comes_first() -> None:
    made = Made()
    made.failed("later", begin=8.0)
    made.operation("earlier", begin=2.0, outcome="wrong")
    assert made.judged() == [("P1", ("earlier",)), ("P3", ("later",))]


def test_servers_that_fail_one_after_the_other_leave_a_sibling() -> None:
    made = Made()
    made.fault(2, "renew", ["A/0", "A/1"], at_once=1, begin=20.0, whole=30.0)
    made.failed("x", begin=25.0, servers=["A/0", "A/1"])
    made.failed("of_one", begin=25.0, servers=["A/0"])
    assert made.judged() == [("P3", ("x",))]


@pytest.mark.parametrize("planted", [{"detected": 31.0, "whole": 31.1 + FULL_SERVICE_S}, {"detected": 31.0}, {}])
def test_a_slow_recovery_is_named(planted: dict[str, float]) -> None:
    made = Made()
    made.fault(2, "kill", ["A/0"], begin=30.0, **planted)
    assert made.judged() == [("P4", ())]
    assert "fault 2 kill" in judge(merged(made.events))[0].text


def test_a_machine_that_starts_processes_slowly_has_more_time() -> None:
    made = Made()
    made.fault(2, "kill", ["A/0"], begin=30.0, detected=31.0, whole=32.0 + FULL_SERVICE_S)
    made.events[-1]["slowness"] = 1.5
    assert made.judged() == []


def test_a_worker_that_ends_again_and_again_has_its_pause_more() -> None:
    made = Made()
    made.fault(2, "kill", ["A/0"], begin=30.0, detected=31.0, whole=40.0 + FULL_SERVICE_S)
    made.events[-1]["pause_s"] = 9.5
    assert made.judged() == []
    made.events[-1]["pause_s"] = 8.5
    assert made.judged() == [("P4", ())]


def test_pauses_are_read_from_the_log_of_a_supervisor() -> None:
    line = "2026-01-01T00:00:00Z WARNING supervisor.worker: worker {} ended with {}; it starts again in {} s\n"
    log = line.format(0, "signal 9", 32) + line.format(1, "exit code 4", 4) + "worker 2 ended\n"
    assert longest_pause_s(log) == 32
    assert longest_pause_s("") == 0


def test_a_retry_storm_is_named_with_its_worst_operations() -> None:
    made = Made()
    for number in range(RETRY_BURST // 4):
        made.operation(f"r-{number}", begin=9.0, retries=4)
    assert made.judged() == []
    made.operation("worst", begin=9.0, retries=40)
    [(promise, operations)] = made.judged()
    assert (promise, operations[0]) == ("P5", "worst")


@pytest.mark.parametrize(("pause_s", "expected"), [(0.0, ["P5"]), (61.0, [])])
def test_retries_count_within_a_minute(pause_s: float, expected: list[str]) -> None:
    made = Made()
    for number in range(2 * RETRY_BURST):
        made.operation(f"r-{number}", begin=11.0 + number / 10 + (number % 2) * pause_s, retries=1)
    assert [promise for promise, _ in made.judged()] == expected


def test_calls_in_flight_may_each_be_retried_once() -> None:
    made = Made()
    for number in range(3 * RETRY_BURST):
        made.operation(f"r-{number}", begin=9.0, seconds=0.5, retries=1)
    assert made.judged() == []


def test_a_process_that_did_not_run_is_not_late() -> None:
    made = Made()
    made.operation("x", begin=4.0, seconds=3.5, deadline_s=2.0)
    made.lag(5.0, 0.7)
    assert made.judged() == []
    made.events[-1]["time"] = 3.0
    assert made.judged() == [("P2", ("x",))]


def test_histories_of_several_processes_are_merged_by_time(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    with History(paths[0]) as first, History(paths[1]) as second:
        first.add("begin", operation="x")
        second.add("lag", seconds=1.0)
        first.add("end", operation="x")
    with paths[1].open("a") as file:
        file.write('{"kind": "cut')
    assert [event["kind"] for event in read(paths)] == ["begin", "lag", "end"]


def test_each_kind_of_fault_has_a_row_with_its_worst_times_and_counts() -> None:
    made = Made()
    made.failed("lost")
    made.failed("short", deadline_s=2.0)
    made.operation("wrong", outcome="wrong", retries=2)
    made.fault(2, "kill", ["A/0"], begin=20.0, detected=20.5, whole=24.5)
    table = table_of(merged(made.events))
    assert [str(column.header) for column in table.columns] == list(TITLES)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert rows == [("kill", "2", "0.5", "4.0", "1", "1", "1", "0.1")]
    assert totals_of(made.events) == "103 operations, 1 wrong, 2 errors; 2 retries, 1.94% of the operations"


def test_pods_that_end_badly_or_that_a_client_never_uses_are_problems() -> None:
    made = Made()
    pod = {"kind": "pod", "time": 0.0, "phase": "ready", "reports": True}
    made.events += [pod | {"address": "one"}, pod | {"address": "two"}, pod | {"address": "old"}]
    made.events += [pod | {"address": "old", "phase": "deleted"}]
    made.operation("first", server="one")
    assert list(problems_of(merged(made.events))) == ["c never used two"]
    made.operation("second", server="two")
    made.events += [pod | {"address": "old", "phase": "gone", "code": 3}]
    assert list(problems_of(merged(made.events))) == ["the process of pod old ended with 3"]
