"""Rounds of mixed calls with a quiet moment after each, in which every process is sampled: does anything grow?"""

import argparse
import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tools.lab.events import Operation, operations_of
from tools.lab.growth import LIMITS, SETTLED_S, Sample, Verdict, judge
from tools.lab.history import Event
from tools.lab.latencies import Latencies
from tools.lab.processes import ClientProcesses
from tools.lab.soak.scene import SHARES, WHOLE_TIMEOUT_S, Scene, is_whole, samples_of
from tools.lab.validator import judge as judge_calls

FOLDER: Final = Path("build/soak")
MAX_ROUND_S: Final = 15.0
ROUNDS: Final = 80
MAX_LIFE_S: Final = 600.0
"""Between two restarts; shorter runs have three restarts."""
MIN_S: Final = 20.0
EXPLANATION: Final = (
    "slope: Theil-Sen's, within the lives of the processes of one kind; rise: that slope over the longest life.\n"
    "A figure grows if both are above their limits."
)
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(duration: str) -> float:
    """Returns the seconds of `600`, `90s`, `30m` or `2h`; raises ValueError otherwise."""
    parts = _DURATION.fullmatch(duration.strip())
    seconds = float(parts[1]) * _UNITS_S[parts[2]] if parts else 0.0
    if seconds < MIN_S:
        raise ValueError(f"DURATION is {duration!r}; give {MIN_S:g} s or more, for example 600, 90s, 30m or 2h")
    return seconds


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run of so many seconds."""

    seconds: float

    @property
    def round_s(self) -> float:
        return min(MAX_ROUND_S, self.seconds / ROUNDS)

    @property
    def warm_up_s(self) -> float:
        """Of each process."""
        return min(SETTLED_S, self.seconds / 12)

    @property
    def life_s(self) -> float:
        return min(MAX_LIFE_S, self.seconds / 4)

    @property
    def restarts(self) -> int:
        """None in the last life."""
        return max(1, round(self.seconds / self.life_s) - 1)


@dataclass(slots=True)
class Run:
    """What was sampled, and how the calls ended."""

    schedule: Schedule
    samples: list[Sample] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    restarts: list[tuple[float, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Calls that ended as none may, what broke the run off, and what the server reported."""

    def verdicts(self) -> list[Verdict]:
        return judge(self.samples, self.schedule.warm_up_s)

    def problems(self) -> list[str]:
        """Returns why the run failed; nothing if it passed."""
        told = [f"{each.subject}: {each.figure}: {each.problem}" for each in self.verdicts() if each.problem]
        missing = set(SHARES) - {end.partition(":")[0] for end in self.ends}
        told += [f"no call of the kind {each!r} ended" for each in sorted(missing)]
        if len(self.restarts) < self.schedule.restarts:
            told.append(f"{len(self.restarts)} restarts instead of {self.schedule.restarts}")
        return [*told, *self.faults]

    def take(self, seconds: float, events: Sequence[Event], life: str) -> None:
        """Takes the calls of a round."""
        operations, _ = operations_of(events)
        self.ends += Counter(f"{each.method}: {each.outcome}" for each in operations.values())
        self.faults += map(str, judge_calls(events))
        for process in sorted({each.process for each in operations.values()}):
            self.samples += latencies(seconds, life, [each for each in operations.values() if each.process == process])


def latencies(seconds: float, life: str, operations: Sequence[Operation]) -> Iterator[Sample]:
    """Yields percentiles of the small calls of a process, in ms; their life is that of the kind of device."""
    took = Latencies.of(each.end - each.begin for each in operations if each.method == "unary" and each.ends)
    for percent in (50, 99) if len(took.ordered_ms) > 1 else ():
        yield Sample(seconds, f"client, {operations[0].process}", life, f"p{percent}", took.ms(percent))


def soak(schedule: Schedule, folder: Path, tell: Callable[[str], None]) -> Run:
    """Runs it; an end before its time is a fault of the run."""
    run, scene = Run(schedule), Scene(folder)
    with scene.host as host:
        try:
            host.wait_until_whole()
            with ClientProcesses([scene.orders(style) for style in ("threads", "tasks")]) as clients:
                _rounds(run, scene, clients, tell)
                scene.wait_until_whole()
        except OSError as error:
            run.faults.append(f"broken off: {error}")
        run.faults += [*clients.failures, *scene.problems()]
    return run


def _rounds(run: Run, scene: Scene, clients: ClientProcesses, tell: Callable[[str], None]) -> None:
    """Has clients call for as long as the schedule says, and on until there was every restart."""
    clients.begin(0.0)
    clients.end_round()
    start, whole = time.monotonic(), True
    while (begin := time.monotonic() - start) < run.schedule.seconds or (
        len(run.restarts) < run.schedule.restarts and begin < run.schedule.seconds + WHOLE_TIMEOUT_S
    ):
        clients.begin(run.schedule.round_s)
        done = len(run.restarts)
        # One restart at a time; a slow one delays the next.
        if done < run.schedule.restarts and begin >= (done + 1) * run.schedule.life_s and whole:
            time.sleep(run.schedule.round_s / 2)
            happened = scene.kill() if done % 2 else scene.renew()
            run.restarts.append((time.monotonic() - start, happened))
            tell(f"{begin:6.0f} s: {happened}")
        events = clients.end_round()
        looks = scene.quiet_looks()
        whole = is_whole(looks)
        seconds = time.monotonic() - start
        run.samples += scene.samples(seconds, looks)
        for name, process_id in clients.process_ids.items():
            run.samples += samples_of(seconds, f"client, {name}", process_id)
        run.take(seconds, events, scene.device)


def table(verdicts: Sequence[Verdict]) -> Table:
    """Returns a row for each figure of each kind of process."""
    titles = ("process", "figure", "lives", "samples", "median", "slope per hour", "limit", "rise", "limit", "")
    found = Table(*titles)
    for column in found.columns[2:9]:
        column.justify = "right"
    before = ""
    for each in sorted(verdicts, key=lambda each: each.subject):
        found.add_row(each.subject if each.subject != before else "", each.figure, *_cells(each))
        before = each.subject
    return found


def _cells(verdict: Verdict) -> Iterator[str]:
    limit = LIMITS[verdict.figure]
    times, unit = (100, " %") if limit.is_relative else (1, f" {limit.unit}".rstrip())
    yield str(verdict.lives)
    yield str(verdict.samples)
    if math.isnan(verdict.median):
        yield from ("", "", "", "", "", "NOT MEASURED" if verdict.problem else "too short")
        return
    yield f"{verdict.median:.1f}{' ms' if limit.is_relative else unit}"
    yield f"{times * verdict.per_hour:+.1f}{unit}"
    yield f"{times * limit.per_hour:g}"
    yield f"{times * verdict.rise:+.1f}{unit}"
    yield f"{times * verdict.most_rise:g}"
    yield "GROWS" if verdict.problem else ""


def lines(warm_up_s: float, ends: Counter[str]) -> Iterator[str]:
    """Yields what belongs below the table."""
    yield EXPLANATION
    if warm_up_s < SETTLED_S:
        yield f"Limits of the rise are wide: {warm_up_s:g} s of warm-up do not fill heaps and pools."
    yield f"{ends.total()} calls: {dict(sorted(ends.items()))}"


def main(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("duration", help="in seconds, or as 90s, 30m or 2h")
    try:
        schedule = Schedule(seconds_of(parser.parse_args(words).duration))
    except ValueError as error:
        parser.error(str(error))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    console = Console(width=125, highlight=False)
    console.print(
        f"{schedule.seconds:g} s in rounds of {schedule.round_s:g} s, {schedule.restarts} restarts; "
        f"the first {schedule.warm_up_s:g} s of each process are not judged"
    )
    run = soak(schedule, FOLDER, console.print)
    console.print(table(run.verdicts()))
    problems = run.problems()
    for each in [*lines(schedule.warm_up_s, run.ends), *(f"FAILED: {problem}" for problem in problems[:20])]:
        console.print(each, soft_wrap=True, markup=False)
    return int(bool(problems))
