"""Faults by a seed under traffic of every kind, and the verdict of the validator."""

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tools.lab.chaos.faults import FAULTS
from tools.lab.chaos.scene import Scene, machine_has, scene
from tools.lab.chaos.schedule import SHORT_SEED, Planned, draw
from tools.lab.events import faults_of, operations_of
from tools.lab.history import Event, History, read
from tools.lab.host import longest_pause_s
from tools.lab.processes import ClientProcesses
from tools.lab.validator import judge

FOLDER: Final = Path("build/chaos")
ISOLATED: Final = "ACLGRAD_LAB_ISOLATED"
BEFORE_S: Final = 2.0
FAULT_COUNT, SHORT_FAULTS = 40, 12
START: Final = [sys.executable, "-c", "import numpy, grpc"]
QUIET_START_S: Final = 0.5
"""What `START` takes at most on a machine of two cores that does nothing else."""
BETWEEN_PROBES_S: Final = 0.5


def main(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("--seed", type=int, help="of faults and traffic; by default a new one, which is printed")
    parser.add_argument("--faults", type=int, help="how many; 40 by default, 12 in the short form")
    parser.add_argument("--short", action="store_true", help="about a minute, without the kinds that take long")
    parser.add_argument("--only", metavar="KIND", nargs="+", choices=sorted(FAULTS), default=(), help="draw only these")
    options = parser.parse_args(words)
    is_isolated = ISOLATED in os.environ
    if not is_isolated and _can_be_isolated():
        own = ["unshare", "--net", "--mount", sys.executable, "-m", "tools.lab", "chaos", *words]
        os.execvpe("unshare", own, os.environ | {ISOLATED: "1"})
    if is_isolated:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    drawn = SHORT_SEED if options.short else random.randrange(2**31)
    seed = drawn if options.seed is None else options.seed
    usual = SHORT_FAULTS if options.short else FAULT_COUNT
    try:
        schedule = draw(
            seed, usual if options.faults is None else options.faults, is_short=options.short, only=options.only
        )
    except ValueError as error:
        parser.error(str(error))
    return int(not run(seed, schedule, machine_has(is_isolated)))


def _can_be_isolated() -> bool:
    """Whether this run may have a network and mounts of its own, where its packets are dropped and its disk is full."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False).returncode == 0


def run(seed: int, schedule: list[Planned], has: set[str]) -> bool:
    """Returns whether no promise was broken."""
    possible = [each for each in schedule if not each.kind.needs or each.kind.needs in has]
    if missing := {each.kind.needs for each in schedule} - {"", *has}:
        print(f"left out for lack of {', '.join(sorted(missing))}: {len(schedule) - len(possible)} faults")
    if not possible:
        print("no fault is left, so the run would prove nothing", file=sys.stderr)
        return False
    folder = FOLDER / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary, ExitStack() as stack:
        made = stack.enter_context(scene(Path(temporary), has))
        history = stack.enter_context(History(folder / "faults.jsonl"))
        ordered = made.orders(folder, seed)
        print(f"seed {seed}: {len(possible)} faults; clients: {', '.join(each.name for each in ordered)}", flush=True)
        with ClientProcesses(ordered) as clients:
            clients.begin()
            clients.wait_for_answers()
            time.sleep(BEFORE_S)
            for planned in possible:
                time.sleep(planned.pause_s)
                _inject(made, planned, history)
            time.sleep(BEFORE_S)
        for log in (made.a.log, made.b.log):
            shutil.copy(log, folder)
    events = read(sorted(folder.glob("*.jsonl")))
    problems = [*map(str, judge(events)), *clients.failures]
    Console(width=120).print(table_of(events))
    print(f"{totals_of(events)}; {time.monotonic() - start:.0f} s; seed {seed}; history and logs in {folder}")
    for each in problems[:10]:
        print(each, file=sys.stderr)
    print(f"{len(problems)} violations; the machine was up to {slowest_of(events):.1f} times slower than a quiet one")
    return not problems


def _inject(made: Scene, planned: Planned, history: History) -> None:
    """Has one fault happen, and tells its begin, its detection and full service."""
    slowness, is_whole = [_slowness()], threading.Event()
    about = {"number": planned.number, "name": planned.kind.name}
    print(f"  {planned}", end="", flush=True)
    begin, logged = time.monotonic(), made.a.log.stat().st_size
    history.add("fault", **about, phase="begin", hits=planned.hits, at_once=planned.at_once)

    def measure() -> None:
        # Until service is back, because the machine may become slow after the detection.
        while not is_whole.is_set():
            slowness.append(_slowness())
            is_whole.wait(BETWEEN_PROBES_S)

    probe = threading.Thread(target=measure)

    def detected() -> None:
        history.add("fault", **about, phase="detected")
        probe.start()

    try:
        FAULTS[planned.kind.name](made, planned, detected)
    except AssertionError as error:
        # The history has no end of it, which the validator says.
        print(f": {error}", flush=True)
        return
    finally:
        whole = time.monotonic()
        is_whole.set()
        if probe.ident is not None:
            probe.join()
    text = made.a.log.read_bytes()[logged:].decode(errors="replace")
    history.add("fault", **about, phase="whole", time=whole, slowness=max(slowness), pause_s=longest_pause_s(text))
    print(f": {whole - begin:.1f} s", flush=True)


def _slowness() -> float:
    """Returns how many times longer a process takes to start now than on a quiet machine."""
    begin = time.monotonic()
    subprocess.run(START, check=True)
    return (time.monotonic() - begin) / QUIET_START_S


def table_of(events: Sequence[Event]) -> Table:
    """Returns the table; times are the longest of each kind, full service counts from the detection."""
    faults = faults_of(events)
    table = Table("fault")
    for title in ("count", "detected s", "full service s"):
        table.add_column(title, justify="right")
    for kind in sorted({fault.name for fault in faults}):
        these = [fault for fault in faults if fault.name == kind]
        detected = [fault.detected - fault.begin for fault in these if fault.detected is not None]
        recovered = [fault.recovery_s for fault in these if fault.recovery_s is not None]
        table.add_row(kind, str(len(these)), _longest(detected), _longest(recovered))
    return table


def totals_of(events: Sequence[Event]) -> str:
    operations, _ = operations_of(events)
    outcomes = [each.outcome for each in operations.values()]
    retries = sum(each.retries for each in operations.values())
    return (
        f"{len(outcomes)} operations, {outcomes.count('wrong')} wrong, {outcomes.count('error')} errors "
        f"(of those that are promised nothing, if there is no violation); {retries} retries"
    )


def slowest_of(events: Sequence[Event]) -> float:
    """Returns how many times slower than a quiet machine this one was at worst."""
    return max((fault.slowness for fault in faults_of(events)), default=1.0)


def _longest(values: Iterable[float]) -> str:
    longest = max(values, default=None)
    return "-" if longest is None else "never" if longest == math.inf else f"{longest:.1f}"
