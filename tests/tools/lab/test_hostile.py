"""The judge of attacks can fail: each limit that a server breaks is named."""

import dataclasses
from typing import Any

import pytest

from tools.lab.hostile import floods
from tools.lab.hostile.catalogue import Attack
from tools.lab.hostile.judgement import LONG, SHORT, judge
from tools.lab.hostile.measure import Measured
from tools.lab.usage import Usage

ATTACK = Attack("made by hand", lambda: floods.idle(1), files=100, forgives=("watch",))
KINDS = ("call", "live", "ready", "chunked", "check", "watch", "reflection")
RIGHT = [(0.0, 0.001, "")] * 100
REFUSED = "RESOURCE_EXHAUSTED: the server is short of memory; try again in 1 s"


def found(**changes: Any) -> Measured:
    samples = {kind: changes.pop(kind, RIGHT) for kind in KINDS}
    return Measured(**{"reached": {"connected": 1}, "samples": samples, "rest": Usage(100, 20, 30)} | changes)


def with_last(count: int, seconds: float, error: str = "", of: int = 100) -> list[tuple[float, float, str]]:
    return [*RIGHT[: of - count], *[(0.0, seconds, error)] * count]


FALLEN: dict[str, tuple[dict[str, Any], str]] = {
    "unanswered": ({"call": with_last(1, 10.0, "DEADLINE_EXCEEDED")}, "call: 1 of 100 unanswered"),
    "never_asked": ({"live": []}, "live: never asked"),
    "late": ({"call": with_last(50, 1.2)}, "call: p"),
    "memory": ({"peak": Usage(1000, 20, 30)}, "grew by 900 MB"),
    "memory_kept": ({"after": Usage(600, 20, 30)}, "keeps 500 MB"),
    "files": ({"peak": Usage(100, 185, 30)}, "grew by 165 files"),
    "threads_kept": ({"after": Usage(100, 20, 63)}, "keeps 33 threads"),
    "traceback": ({"log": "Traceback (most recent call last):"}, "traceback in the log"),
    "server": ({"problems": ["the server ended with -9"]}, "the server ended with -9"),
    "refused_too_often": ({"call": with_last(5, 0.1, REFUSED, of=39)}, "call: 5 of 39"),
    "other_refusal": ({"call": with_last(1, 0.1, "RESOURCE_EXHAUSTED: the queue is full", of=39)}, "call: 1 of 39"),
}
LONG_ONLY: dict[str, tuple[dict[str, Any], str]] = {
    "two_calls_of_a_hundred_late": ({"call": with_last(2, 0.6)}, "call: p99 600 ms"),
    "a_few_refusals": ({"call": with_last(4, 0.1, REFUSED, of=39)}, "call: 4 of 39 unanswered"),
    "loop": ({"log": "loop held for 900.0 ms, 55.0 ms of it on the CPU: plan"}, "loop held 55 ms"),
    "weak": ({"reached": {"connected": 0}}, "weak attack: connected 0 of 1"),
}


@pytest.mark.parametrize(("changes", "told"), [*FALLEN.values(), *LONG_ONLY.values()], ids=[*FALLEN, *LONG_ONLY])
def test_what_makes_a_server_fall(changes: dict[str, Any], told: str) -> None:
    (problem,) = judge(ATTACK, found(**changes), LONG)
    assert problem.startswith(told)
    is_forgiven = (changes, told) in LONG_ONLY.values()
    assert bool(judge(ATTACK, found(**changes), SHORT)) != is_forgiven


def test_what_is_forgiven() -> None:
    """Refused watches, one slow call of a hundred, some memory, own connections, and a server that holds back."""
    changes = {"reached": {"connected": 0, "held_up": 1}, "peak": Usage(600, 184, 94), "call": with_last(1, 3.0)}
    assert judge(ATTACK, found(watch=with_last(1, 10.0, "UNAVAILABLE"), **changes), LONG) == []
    none = dataclasses.replace(ATTACK, files=0)
    assert judge(none, found(**changes), LONG) == ["grew by 164 files"]
