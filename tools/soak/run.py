"""A run: rounds of traffic with a quiet moment after each, in which every process is sampled."""

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.soak.clients import WAYS, ClientProcess, Round
from tools.soak.host import WHOLE_TIMEOUT_S, Host, is_whole, samples_of
from tools.soak.slopes import SETTLED_S, Sample, Verdict, judge
from tools.soak.traffic import SHARES

MAX_ROUND_S: Final = 15.0
ROUNDS: Final = 80
MAX_LIFE_S: Final = 600.0
"""Between two restarts; shorter runs have three restarts."""


_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
MIN_S: Final = 20.0


def seconds_of(duration: str) -> float:
    """Returns the seconds of `600`, `90s`, `30m` or `2h`; raises ValueError otherwise."""
    parts = _DURATION.fullmatch(duration.strip())
    seconds = float(parts[1]) * _UNITS_S[parts[2]] if parts else 0.0
    if seconds < MIN_S:
        raise ValueError(f"DURATION is {duration!r}; give {MIN_S:g} s or more, for example 600, 90s, 30m or 2h")
    return seconds


@dataclass(frozen=True, slots=True)
class Plan:
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

    plan: Plan
    samples: list[Sample] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    restarts: list[tuple[float, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What broke it off, and what the server reported."""

    def verdicts(self) -> list[Verdict]:
        return judge(self.samples, self.plan.warm_up_s)

    def problems(self) -> list[str]:
        """Returns why the run failed; nothing if it passed."""
        told = [f"{each.subject}: {each.figure}: {each.problem}" for each in self.verdicts() if each.problem]
        missing = set(SHARES) - {end.partition(":")[0] for end in self.ends}
        told += [f"no call of the kind {each!r} ended" for each in sorted(missing)]
        if self.failures:
            told.append(f"{len(self.failures)} calls failed, first {self.failures[0]}")
        if len(self.restarts) < self.plan.restarts:
            told.append(f"{len(self.restarts)} restarts instead of {self.plan.restarts}")
        return [*told, *self.faults]


def soak(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Run:
    """Runs it and keeps the server's log in the folder; an end before its time is a fault of the run."""
    run, host = Run(plan), Host(folder)
    with host.server as server:
        try:
            with ExitStack() as stack:
                clients = {
                    f"client, {way}": stack.enter_context(ClientProcess(way, *server.addresses, seed=1000 * number))
                    for number, way in enumerate(WAYS)
                }
                _rounds(run, host, clients, tell)
                host.wait_until_whole()
        except OSError as error:
            run.faults.append(f"broken off: {error}")
        finally:
            (folder / "server.log").write_text(server.log)
        run.faults += host.problems()
    return run


def _rounds(run: Run, host: Host, clients: dict[str, ClientProcess], tell: Callable[[str], None]) -> None:
    """Has clients call for as long as the plan says, and on until there was every restart."""
    start, whole = time.monotonic(), True
    while (begin := time.monotonic() - start) < run.plan.seconds or (
        len(run.restarts) < run.plan.restarts and begin < run.plan.seconds + WHOLE_TIMEOUT_S
    ):
        for client in clients.values():
            client.start_round(run.plan.round_s)
        done = len(run.restarts)
        # One restart at a time; a slow one delays the next.
        if done < run.plan.restarts and begin >= (done + 1) * run.plan.life_s and whole:
            time.sleep(run.plan.round_s / 2)
            happened = host.kill() if done % 2 else host.renew()
            run.restarts.append((time.monotonic() - start, happened))
            tell(f"{begin:6.0f} s: {happened}")
        rounds = {name: client.end_round() for name, client in clients.items()}
        looks = host.quiet_looks()
        whole = is_whole(looks)
        seconds = time.monotonic() - start
        run.samples += host.samples(seconds, looks)
        for name, each in rounds.items():
            run.ends += each.ends
            run.failures += each.failures
            life = clients[name].process_id
            run.samples += samples_of(seconds, name, life)
            run.samples += _latencies(seconds, name, host.device, each)


def _latencies(seconds: float, subject: str, device: str, told: Round) -> Iterator[Sample]:
    """Yields percentiles of the small calls of a round, in ms; their life is that of the kind of device."""
    if len(told.latencies_s) > 1:
        percentiles = statistics.quantiles(told.latencies_s, n=100, method="inclusive")
        yield Sample(seconds, subject, device, "p50", 1000 * percentiles[49])
        yield Sample(seconds, subject, device, "p99", 1000 * percentiles[98])
