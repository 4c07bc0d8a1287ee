"""The soak can fail: it sees what a process takes, a call that failed, and calls or a restart that were missing."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tools.lab.caller import Orders
from tools.lab.gradients import write_questions
from tools.lab.growth import SETTLED_S, Sample
from tools.lab.history import Event
from tools.lab.processes import ClientProcesses
from tools.lab.soak.report import table
from tools.lab.soak.run import Plan, Run, seconds_of
from tools.lab.soak.scene import SHARES
from tools.lab.usage import figures_of

GROWING = """
import mmap, os, socket, threading
print("up", flush=True)
input()
memory = bytearray(os.urandom(32 * 2**20))
for _ in range(3): threading.Thread(target=threading.Event().wait, daemon=True).start()
pairs = [socket.socketpair() for _ in range(2)]
shared = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
os.truncate(shared, 8 * 2**20)
mapped = mmap.mmap(shared, 8 * 2**20)
print("grown", flush=True)
input()
"""


def test_what_a_process_takes_is_seen_until_it_has_ended() -> None:
    words = [sys.executable, "-c", GROWING]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = figures_of(process.pid)
        process.stdin.write("grow\n")
        process.stdout.readline()
        after = figures_of(process.pid)
        process.kill()
        process.stdout.read()
        assert figures_of(process.pid) == {}
    grown = {name: after[name] - before[name] for name in after}
    assert (grown["RSS"], grown["PSS"]) == (pytest.approx(32, abs=4), pytest.approx(32, abs=6))
    # The mapping has a file of its own.
    figures = "shared memory", "threads", "connections", "files"
    assert [grown[name] for name in figures] == [8, 3, 4, 4 + 2]


def test_clients_that_end_before_their_time_break_the_run_off(tmp_path: Path) -> None:
    questions = write_questions(tmp_path / "questions", ["unary"], set())
    orders = Orders("one", "threads", "127.0.0.1:1", ["a"], {"unary": 1}, questions, str(tmp_path / "history"))
    with ClientProcesses([orders]) as clients:
        psutil.Process(clients.process_ids["one"]).kill()
        with pytest.raises(ChildProcessError, match="clients one ended with -9"):
            clients.end_round()
    assert clients.failures == ["the clients one ended with -9"]


def ended(outcome: str) -> list[Event]:
    about = {"operation": "x", "client": "tasks/calls", "method": "unary", "servers": ["a", "b"], "deadline_s": 60.0}
    end = {"outcome": outcome, "error": "ServerBusyError", "is_typed": True, "retries": 0}
    return [{"kind": "begin", "time": 1.0, **about}, {"kind": "end", "time": 2.0, "operation": "x", **end}]


def good_run() -> Run:
    plan = Plan(1800)
    run = Run(plan, ends=Counter({f"{kind}: right": 10 for kind in SHARES}))
    run.samples = [Sample(15.0 * turn, "worker", "1", "RSS", 300.0) for turn in range(120)]
    run.restarts = [(450.0 * turn, "kill -9") for turn in range(1, plan.restarts + 1)]
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
    plan = Plan(seconds_of(text))
    assert plan.seconds == seconds
    assert plan.restarts >= 3
    assert (plan.life_s - plan.warm_up_s) / plan.round_s >= 10
    assert (plan.warm_up_s == SETTLED_S) == (seconds >= 1800)


@pytest.mark.parametrize("text", ["", "soon", "5s", "1d"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for example 600, 90s, 30m or 2h"):
        seconds_of(text)
