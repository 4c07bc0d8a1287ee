"""What is judged, on samples made by hand, and what the bystander says of servers that answer late or not at all."""

import dataclasses
import math
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from tools.hostile.attacks import connections
from tools.hostile.bystander import Questions
from tools.hostile.catalogue import ATTACKS, Attack
from tools.hostile.judgement import LONG, SHORT, Figures, judge, percentile
from tools.hostile.measure import Measured
from tools.hostile.scenes import SCENES
from tools.hostile.servers import STARTS
from tools.hostile.usage import Sampler, Usage
from tools.serving import Server

ATTACK = Attack("made", "made by hand", lambda: connections.idle(1), forgives=("watch",))
KINDS = ("call", "live", "ready", "chunked", "check", "watch", "reflection")
RIGHT = [(0.0, 0.001, "")] * 100


def found(**changes: Any) -> Measured:
    samples = {kind: changes.pop(kind, RIGHT) for kind in KINDS}
    return Measured(**{"reached": {"connected": 1}, "samples": samples, "rest": Usage(100, 20, 30)} | changes)


def with_slow(count: int, seconds: float) -> list[tuple[float, float, str]]:
    return [*RIGHT[count:], *[(0.0, seconds, "")] * count]


FALLEN = {
    "call_unanswered": ({"call": [*RIGHT, (0.0, 10.0, "DEADLINE_EXCEEDED")]}, "call: 1 of 101 unanswered"),
    "health_unanswered": ({"ready": [*RIGHT, (0.0, 0.1, "status 2")]}, "ready: 1 of 101 unanswered"),
    "never_asked": ({"live": []}, "live: never asked"),
    "calls_late": ({"call": with_slow(50, 1.2)}, "call: p"),
    "reflection_late": ({"reflection": with_slow(50, 0.6)}, "reflection: p75 600 ms"),
    "memory": ({"peak": Usage(1000, 20, 30)}, "grew by 900 MB"),
    "memory_kept": ({"after": Usage(600, 20, 30)}, "keeps 500 MB"),
    "files": ({"peak": Usage(100, 85, 30)}, "grew by 65 files"),
    "files_kept": ({"after": Usage(100, 37, 30)}, "keeps 17 files"),
    "threads": ({"peak": Usage(100, 20, 95)}, "grew by 65 threads"),
    "threads_kept": ({"after": Usage(100, 20, 63)}, "keeps 33 threads"),
    "traceback": ({"log": "Traceback (most recent call last):"}, "traceback in the log"),
    "audit": ({"log": "WARNING aclgrad_server.access.audit: refused\n" * 21}, "21 lines of the audit"),
    "server": ({"problems": ["the server ended with -9"]}, "the server ended with -9"),
}


@pytest.mark.parametrize("limits", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize(("changes", "told"), FALLEN.values(), ids=FALLEN)
def test_what_makes_a_server_fall(changes: dict[str, Any], told: str, limits: Any) -> None:
    problems = judge(ATTACK, found(**changes), limits).problems
    assert [problem for problem in problems if problem.startswith(told)], problems


LONG_ONLY = {
    "two_calls_of_a_hundred_late": ({"call": with_slow(2, 0.6)}, "call: p99 600 ms"),
    "two_answers_on_health_late": ({"live": with_slow(2, 0.6)}, "live: p99 600 ms"),
    "loop": ({"log": "WARNING loop held for 61.5 ms: plan\nloop held for 12.0 ms: plan"}, "loop held 62 ms"),
    "loop_on_the_cpu": ({"log": "loop held for 900.0 ms, 55.0 ms of it on the CPU: plan"}, "loop held 55 ms"),
    "weak": ({"reached": {"connected": 0}}, "weak attack: connected 0 of 1"),
}


@pytest.mark.parametrize(("changes", "told"), LONG_ONLY.values(), ids=LONG_ONLY)
def test_what_only_the_long_form_judges(changes: dict[str, Any], told: str) -> None:
    assert judge(ATTACK, found(**changes), LONG).problems == (told,)
    assert judge(ATTACK, found(**changes), SHORT).withstood


REFUSED = "RESOURCE_EXHAUSTED: the server is short of memory; try again in 1 s"


def with_errors(count: int, of: int, error: str = REFUSED) -> list[tuple[float, float, str]]:
    return [*RIGHT[: of - count], *[(0.0, 0.001, error)] * count]


@pytest.mark.parametrize("changes", [{"call": with_errors(4, 39)}, {"chunked": with_errors(1, 5)}], ids=["39", "5"])
def test_the_short_form_takes_a_few_refusals_for_memory(changes: dict[str, Any]) -> None:
    assert judge(ATTACK, found(**changes), SHORT).withstood
    (problem,) = judge(ATTACK, found(**changes), LONG).problems
    assert problem.endswith("unanswered (RESOURCE_EXHAUSTED: the server is short )")


UNANSWERED = {
    "too_many": (with_errors(5, 39), "call: 5 of 39"),
    "all": (with_errors(39, 39), "call: 39 of 39"),
    "another_limit": (with_errors(1, 39, "RESOURCE_EXHAUSTED: the queue is full; try again in 1 s"), "call: 1 of 39"),
    "no_remedy": (with_errors(1, 39, "RESOURCE_EXHAUSTED: the server is short of memory"), "call: 1 of 39"),
    "another_status": (with_errors(1, 39, REFUSED.replace("RESOURCE_EXHAUSTED", "INTERNAL")), "call: 1 of 39"),
    "beside_refusals": ([*with_errors(3, 38), (0.0, 0.1, "UNAVAILABLE: closed")], "call: 1 of 39 unanswered (UNAV"),
}


@pytest.mark.parametrize(("calls", "told"), UNANSWERED.values(), ids=UNANSWERED)
def test_the_short_form_takes_no_other_errors(calls: list[tuple[float, float, str]], told: str) -> None:
    (problem,) = judge(ATTACK, found(call=calls), SHORT).problems
    assert problem.startswith(told)


def test_what_is_forgiven() -> None:
    """Refused watches, one slow call of a hundred, some memory, and an attacker that the server holds up."""
    reached = {"connected": 0, "held_up": 1}
    changes = {"reached": reached, "watch": [(0.0, 10.0, "UNAVAILABLE")], "call": with_slow(1, 3.0)}
    changes |= {"peak": Usage(600, 84, 94), "log": "loop held for 900.0 ms, 20.0 ms of it on the CPU: plan"}
    assert judge(ATTACK, found(**changes), LONG).withstood


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 201)]
    assert [percentile(values, each) for each in (0, 50, 99, 100)] == [1, 100, 198, 200]
    assert math.isnan(percentile([], 50))


def test_questions_count_from_when_they_were_due() -> None:
    """Nobody answers for a second: what was due in it waited from then on, not from when it was asked."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        questions = Questions(f"{host}:{port}", f"{host}:{port}", limit_s=1.0)
        time.sleep(0.9)
        samples = questions.end()
    assert set(samples) == set(KINDS)
    times = [seconds for _, seconds, error in samples["live"] if error]
    assert len(times) == len(samples["live"]) >= 4
    assert times[0] > 0.9
    # Asked when the first was given up, and due 0.2 s after it.
    assert times[1] > 0.7


def test_a_server_that_is_not_attacked_answers_everything(server: Server) -> None:
    questions = Questions(server.address, getattr(server, "admin", None))
    time.sleep(1)
    figures = {name: Figures.of(each) for name, each in questions.end().items()}
    assert {name: each.error for name, each in figures.items()} == dict.fromkeys(KINDS, "")
    assert figures["call"].count >= 15
    assert figures["live"].count >= 4


def test_names_are_unique_and_starts_are_known() -> None:
    names = [*(attack.name for attack in ATTACKS), *SCENES]
    assert len(set(names)) == len(names)
    assert {attack.server for attack in ATTACKS} == set(STARTS)


def test_an_attackers_own_connections_are_no_leak() -> None:
    many = dataclasses.replace(ATTACK, files=500)
    assert judge(many, found(peak=Usage(100, 584, 30)), LONG).withstood
    assert judge(many, found(peak=Usage(100, 585, 30)), LONG).problems == ("grew by 565 files",)


GROWING = """
import os, threading
print(flush=True)
input()
for _ in range(5): threading.Thread(target=threading.Event().wait, daemon=True).start()
for _ in range(7): os.dup(0)
print(flush=True)
input()
"""


def test_files_and_threads_of_a_process_are_counted() -> None:
    words = [sys.executable, "-c", GROWING]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = Usage.of(process.pid)
        process.stdin.write("grow\n")
        process.stdout.readline()
        grown = Usage.of(process.pid).beyond(before)
        process.stdin.write("end\n")
    assert (grown.files, grown.threads) == (7, 5)


def test_a_process_that_has_ended_uses_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert Usage.of(process.pid) == Usage()


def test_the_peak_is_the_most_of_each_kind() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process, Sampler(process.pid) as sampler:
        sampler.wait_until(lambda used: used.files > 0, 60)
        sampler.peak = Usage(1e6, 0, 99)
        sampler.wait_until(lambda _: sampler.peak.files > 0, 60)
        assert sampler.peak == Usage(1e6, sampler.now().files, 99)
