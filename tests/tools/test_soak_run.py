"""The soak can fail: it sees what a process takes, a call that failed, and traffic or a restart that was missing."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import psutil
import pytest
from rich.console import Console

from tools.soak.clients import ClientProcess
from tools.soak.report import lines, table
from tools.soak.run import Plan, Run, seconds_of
from tools.soak.slopes import SETTLED_S, Sample
from tools.soak.traffic import SHARES
from tools.soak.watch import figures_of

GROWING = """
import mmap, os, socket, threading
stay = threading.Event()
print("up", flush=True)
input()
memory = bytearray(os.urandom(32 * 2**20))
threads = [threading.Thread(target=stay.wait, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
files = [open(os.devnull) for _ in range(5)]
pairs = [socket.socketpair() for _ in range(2)]
name = f"/dev/shm/soak-{os.getpid()}"
shared = open(name, "w+b")
os.unlink(name)
shared.truncate(8 * 2**20)
mapped = mmap.mmap(shared.fileno(), 8 * 2**20)
print("grown", flush=True)
input()
"""


def test_what_a_process_takes_is_seen() -> None:
    words = [sys.executable, "-c", GROWING]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = figures_of(process.pid)
        process.stdin.write("grow\n")
        process.stdout.readline()
        after = figures_of(process.pid)
        process.stdin.write("end\n")
    grown = {name: after[name] - before[name] for name in after}
    assert grown["RSS"] == pytest.approx(32, abs=4)
    assert grown["PSS"] == pytest.approx(32, abs=6)
    assert (grown["shared memory"], grown["threads"], grown["connections"]) == (8, 3, 4)
    # The mapping has a file of its own.
    assert grown["files"] == 5 + 4 + 2


def test_a_process_that_has_ended_has_no_figures() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        process.wait()
        assert figures_of(process.pid) == {}


def test_a_client_that_ends_before_its_time_breaks_the_run_off() -> None:
    with ClientProcess("threads", "", "", 0) as client:
        psutil.Process(client.process_id).kill()
        with pytest.raises(ChildProcessError, match="ended with -9"):
            client.end_round()


def good_run() -> Run:
    plan = Plan(1800)
    run = Run(plan, ends=Counter({f"{kind}: answered": 10 for kind in SHARES}))
    run.samples = [Sample(15.0 * turn, "worker", "1", "RSS", 300.0) for turn in range(120)]
    run.restarts = [(450.0 * turn, "kill -9") for turn in range(1, plan.restarts + 1)]
    return run


def grow(run: Run) -> None:
    run.samples = [Sample(each.seconds, "worker", "1", "RSS", 300 + each.seconds) for each in run.samples]


SPOILED: dict[str, tuple[Callable[[Run], object], str]] = {
    "growth": (grow, "worker: RSS: more than"),
    "failed_call": (lambda run: run.failures.append("small: ServerBusyError"), "1 calls failed, first small"),
    "missing_kind": (lambda run: run.ends.pop("shared: answered"), "no call of the kind 'shared'"),
    "missing_restart": (lambda run: run.restarts.pop(), "2 restarts instead of 3"),
    "fault": (lambda run: run.faults.append("broken off"), "broken off"),
}


def test_a_good_run_passes() -> None:
    assert good_run().problems() == []


@pytest.mark.parametrize(("spoil", "told"), SPOILED.values(), ids=SPOILED)
def test_what_fails_a_run(spoil: Callable[[Run], object], told: str) -> None:
    run = good_run()
    spoil(run)
    (problem,) = run.problems()
    assert problem.startswith(told)


def test_the_table_names_what_grows() -> None:
    run = good_run()
    grow(run)
    console = Console(width=125)
    with console.capture() as captured:
        console.print(table(run.verdicts()))
    (row,) = re.findall(r".*RSS.*", captured.get())
    assert "GROWS" in row
    assert "+3600.0 MiB" in row
    assert len(list(lines(run))) == 2


@pytest.mark.parametrize(("text", "seconds"), [("600", 600), ("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "5s", "1d", "30 m"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for example 600, 90s, 30m or 2h"):
        seconds_of(text)


@pytest.mark.parametrize("seconds", [20, 40, 600, 1800, 7200])
def test_a_run_of_any_length_has_restarts_and_samples_of_each_life(seconds: float) -> None:
    plan = Plan(seconds)
    assert plan.restarts >= 3
    assert plan.life_s * (plan.restarts + 1) == pytest.approx(seconds)
    assert (plan.life_s - plan.warm_up_s) / plan.round_s >= 10
    assert (plan.warm_up_s == SETTLED_S) == (seconds >= 1800)
