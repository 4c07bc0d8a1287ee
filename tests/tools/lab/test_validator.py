"""The validator on histories made by hand: a good one passes, and each planted violation is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.lab.history import Event, History, merged, read
from tools.lab.rolling import problems_of
from tools.lab.validator import FULL_SERVICE_S, RETRY_BURST, TOO_LATE, judge

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
        self.operation(name, seconds=seconds, **({"outcome": "error", "error": "LostError", "is_typed": True} | values))

    def fault(
        self,
        number: int,
        name: str,
        hits: list[str],
        at_once: int = 0,
        about: dict[str, float] | None = None,
        **at: Any,
    ) -> None:
        told = {"kind": "fault", "number": number, "name": name, "hits": hits, "at_once": at_once, **(about or {})}
        self.events += [told | {"phase": phase, "time": time} for phase, time in at.items()]

    def end(self, name: str, time: float) -> None:
        self.events.append({"time": time, "kind": "end", "operation": name, "outcome": "right", "retries": 0})

    def lag(self, time: float, seconds: float) -> None:
        self.events.append({"time": time, "kind": "lag", "process": "c", "seconds": seconds})

    def late(self, lag_at: float) -> None:
        self.operation("x", seconds=3.5, deadline_s=2.0)
        self.lag(lag_at, 0.7)

    def recovery(self, seconds: float, **about: float) -> None:
        self.fault(2, "kill", ["A/0"], about=about, begin=30.0, detected=31.0, whole=31.0 + seconds)

    def retried(self, count: int, every_s: float = 0.0, retries: int = 1, seconds: float = 0.05) -> None:
        for number in range(count):
            self.operation("x", begin=9.0 + number * every_s, seconds=seconds, retries=retries)
            self.events[-1]["operation"] = self.events[-2]["operation"] = f"x{number}"

    def forgiven(self) -> None:
        """No promise for a short deadline, for one server, or if all servers have faults; a fault may take its time."""
        self.failed("short", deadline_s=2.0)
        self.failed("alone", servers=["A/1"])
        self.fault(2, "supervisor", ["A/0", "B/0"], begin=4.5, detected=4.6, whole=5.0)
        self.failed("all_down", seconds=1.0)
        self.operation("retried", retries=4)
        self.fault(3, "slow_device", ["A/0"], begin=20.0, whole=29.0)

    def in_turn(self) -> None:
        """Servers that fail one after the other leave a sibling."""
        self.fault(2, "renew", ["A/0", "A/1"], at_once=1, begin=20.0, whole=30.0)
        self.failed("x", begin=25.0, servers=["A/0", "A/1"])
        self.failed("of_one", begin=25.0, servers=["A/0"])


PLANTED: dict[str, tuple[Callable[[Made], object], str]] = {
    "forgiven": (Made.forgiven, ""),
    "wrong_gradient": (lambda made: made.operation("x", outcome="wrong"), "P1 x"),
    "dropped_reply": (lambda made: made.operation("x", seconds=None), "P2 x"),
    "double_answer": (lambda made: made.end("c-7", 2.0), "P2 c-7"),
    "answer_to_nobody": (lambda made: made.end("never", 2.0), "P2 never"),
    "late_error": (lambda made: made.failed("x", seconds=3.5, deadline_s=2.0), "P2 x"),
    "late_gradient": (lambda made: made.operation("x", seconds=12.0), "P2 x"),
    "late_before_a_lag": (lambda made: made.late(lag_at=3.0), "P2 x"),
    "late_by_a_lag": (lambda made: made.late(lag_at=5.0), ""),
    "untyped_error": (lambda made: made.failed("x", deadline_s=2.0, is_typed=False), "P2 x"),
    "failed_with_a_sibling": (lambda made: made.failed("x"), "P3 x"),
    "failed_without_a_fault": (lambda made: made.failed("x", begin=8.0), "P3 x"),
    "failed_too_late_to_be_repeated": (lambda made: made.failed("x", seconds=5.1, text=f"gone; {TOO_LATE}"), ""),
    "failed_early_whatever_it_says": (lambda made: made.failed("x", seconds=4.9, text=f"gone; {TOO_LATE}"), "P3 x"),
    "failed_in_turn": (Made.in_turn, "P3 x"),
    "slow_recovery": (lambda made: made.recovery(FULL_SERVICE_S + 0.1), "P4"),
    "no_recovery": (lambda made: made.fault(2, "kill", ["A/0"], begin=30.0, detected=31.0), "P4"),
    "no_detection": (lambda made: made.fault(2, "kill", ["A/0"], begin=30.0), "P4"),
    "slow_machine": (lambda made: made.recovery(FULL_SERVICE_S + 1, slowness=1.5), ""),
    "pause_of_a_worker": (lambda made: made.recovery(FULL_SERVICE_S + 9, pause_s=9.5), ""),
    "more_than_the_pause": (lambda made: made.recovery(FULL_SERVICE_S + 9, pause_s=8.5), "P4"),
    "few_retries": (lambda made: made.retried(RETRY_BURST // 4, retries=4), ""),
    "storm": (lambda made: made.retried(2 * RETRY_BURST, every_s=0.1), "P5 x"),
    "retries_of_several_minutes": (lambda made: made.retried(2 * RETRY_BURST, every_s=0.8), ""),
    "calls_in_flight_retried_once": (lambda made: made.retried(3 * RETRY_BURST, seconds=0.5), ""),
}


@pytest.mark.parametrize(("plant", "told"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_named_and_nothing_else(plant: Callable[[Made], object], told: str) -> None:
    made = Made()
    plant(made)
    found = judge(merged(made.events))
    assert [each.promise for each in found] == told.split()[:1]
    assert all(each.operations[0].startswith(told.split()[1]) for each in found if each.operations)


def test_the_first_violation_comes_first_and_nothing_proves_nothing() -> None:
    made = Made()
    made.failed("later", begin=8.0)
    made.operation("earlier", begin=2.0, outcome="wrong")
    assert [each.promise for each in judge(merged(made.events))] == ["P1", "P3"]
    assert [each.promise for each in judge([each for each in made.events if each["kind"] == "fault"])] == ["P2"]


def test_histories_of_several_processes_are_merged_by_time(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    with History(paths[0]) as first, History(paths[1]) as second:
        first.add("begin", operation="x")
        second.add("lag", seconds=1.0)
        first.add("end", operation="x")
    with paths[1].open("a") as file:
        file.write('{"kind": "cut')
    assert [event["kind"] for event in read(paths)] == ["begin", "lag", "end"]


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
