"""`python -m tools.chaos`: faults by a seed under traffic of every kind, and the verdict of the validator."""

import argparse
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from tools.chaos.clients import clients
from tools.chaos.faults import FAULTS
from tools.chaos.history import History, read
from tools.chaos.hosts import longest_pause_s
from tools.chaos.scene import Scene, machine_has, scene
from tools.chaos.schedule import KEPT_FAULTS, SEEDS, SHORT_SEED, Planned, draw
from tools.chaos.summary import slowest_of, table_of, totals_of
from tools.chaos.validator import judge

FOLDER = Path("build/chaos")
BEFORE_S = 2.0
FAULT_COUNT, SHORT_FAULTS = 40, 12
START = [sys.executable, "-c", "import numpy, grpc"]
QUIET_START_S = 0.5
"""What `START` takes at most on a machine of two cores that does nothing else."""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, help="of the schedule and the traffic; by default a new one, which is printed"
    )
    parser.add_argument("--faults", type=int, help="how many; 40 by default, 12 in the short form")
    parser.add_argument("--short", action="store_true", help="about a minute, without the kinds that take long")
    parser.add_argument("--kept", action="store_true", help="run each seed that is kept because it found something")
    parser.add_argument("--only", metavar="KIND", nargs="+", choices=sorted(FAULTS), help="draw only these")
    parser.add_argument("--isolated", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.isolated and _can_be_isolated():
        os.execvp(
            "unshare", ["unshare", "--net", "--mount", sys.executable, "-m", "tools.chaos", *sys.argv[1:], "--isolated"]
        )
    if options.isolated:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    drawn = SHORT_SEED if options.short else random.randrange(2**31)
    seeds = list(SEEDS) if options.kept else [drawn if options.seed is None else options.seed]
    usual = SHORT_FAULTS if options.short else KEPT_FAULTS if options.kept else FAULT_COUNT
    faults = usual if options.faults is None else options.faults
    has = machine_has(options.isolated)
    try:
        schedules = {seed: draw(seed, faults, is_short=options.short, only=options.only or ()) for seed in seeds}
    except ValueError as error:
        parser.error(str(error))
    return int(not all([run(seed, schedule, has) for seed, schedule in schedules.items()]))


def _can_be_isolated() -> bool:
    """Whether this run may have a network and mounts of its own, where its packets are dropped and its disk is full."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False).returncode == 0


def run(seed: int, schedule: list[Planned], has: set[str]) -> bool:
    """Returns whether no promise was broken."""
    possible = [each for each in schedule if not each.kind.needs or each.kind.needs in has]
    has_torch = importlib.util.find_spec("torch") is not None
    print(
        f"seed {seed}: {len(possible)} faults; {'with' if has_torch else 'without PyTorch, so without'} aclgrad.torch",
        flush=True,
    )
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
        with clients(made, folder, seed, with_torch=has_torch) as processes:
            time.sleep(BEFORE_S)
            for planned in possible:
                time.sleep(planned.pause_s)
                _inject(made, planned, history)
            time.sleep(BEFORE_S)
        for log in (made.a.log, made.b.log):
            shutil.copy(log, folder)
    events = read(sorted(folder.glob("*.jsonl")))
    violations = judge(events)
    Console(width=120).print(table_of(events))
    print(
        "lost: failed although a sibling was healthy; not promised: all servers hit, one server, or a deadline of 2 s"
    )
    print(f"{totals_of(events)}; {time.monotonic() - start:.0f} s; seed {seed}; history and logs in {folder}")
    for ended in processes.failures:
        print(ended, file=sys.stderr)
    for violation in violations[:10]:
        print(violation, file=sys.stderr)
    print(f"{len(violations)} violations; the machine was up to {slowest_of(events):.1f} times slower than a quiet one")
    return not violations and not processes.failures


def _inject(made: Scene, planned: Planned, history: History) -> None:
    """Has one fault happen, and tells its begin, its detection and full service."""
    slowness = [_slowness()]
    about = {"number": planned.number, "name": planned.kind.name}
    print(f"  {planned}", end="", flush=True)
    begin, logged = time.monotonic(), made.a.log.stat().st_size
    history.add("fault", **about, phase="begin", hits=planned.hits, at_once=planned.at_once)
    probe = threading.Thread(target=lambda: slowness.append(_slowness()))

    def detected() -> None:
        history.add("fault", **about, phase="detected")
        probe.start()

    try:
        FAULTS[planned.kind.name](made, planned, detected)
    except AssertionError as error:
        # The history has no end of it, which the validator says.
        print(f": {error}", flush=True)
        return
    whole = time.monotonic()
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


if __name__ == "__main__":
    sys.exit(main())
