"""What came of every call, by stage, and what the processes took meanwhile."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import psutil

from tools.load.scenario import SETTLE_S, Scenario, Stage

SAMPLE_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Row:
    """One call in one stage of one round; what was not measured is not a number."""

    turn: int
    stage: str
    call: str
    kind: str
    callers: int
    calls: int
    seconds: float
    calls_per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    errors: Mapping[str, int]
    error_share: float
    retryable_share: float
    """Of the errors: those that came with the delay after which the server asks to be called again."""
    cpu_ms: float
    """CPU time of the server that was called for each call of any kind that it answered."""
    calls_per_core_s: float
    peak_mb: float
    """Of that server's resident memory."""
    threads: int
    generator_cores: float
    """What the generator itself took: near 1, it is the generator that is measured."""
    load_average: float


@dataclass(slots=True)
class _Ends:
    latencies_s: list[float] = field(default_factory=list)
    bytes: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    retryable: int = 0


class Recorder:
    """Takes every call as it ends, and samples of every process; counts those within the window of their stage.

    `processes` are "server", "echo" and "generator".
    """

    def __init__(self, scenario: Scenario, processes: Mapping[str, psutil.Process], kinds: Mapping[str, str]) -> None:
        self._scenario = scenario
        self._processes = processes
        self._kinds = kinds
        self._ends: dict[tuple[int, str], _Ends] = {}
        self._began_s: float | None = None
        self._starts_s = list(np.cumsum([0.0, *(stage.seconds for _, stage in scenario.schedule)]))
        self.samples: dict[str, list[tuple[float, float, int, int]]] = {name: [] for name in processes}
        self.load_averages: list[tuple[float, float]] = []
        self.all_errors: Counter[str] = Counter()

    @property
    def is_started(self) -> bool:
        return self._began_s is not None

    def start(self) -> None:
        self._began_s = time.monotonic()

    def elapsed_s(self) -> float:
        return time.monotonic() - (self._began_s or time.monotonic())

    def current(self) -> int | None:
        """Returns the position of the stage that is on in the schedule; None when all have passed."""
        position = int(np.searchsorted(self._starts_s, self.elapsed_s(), side="right")) - 1
        return position if position < len(self._scenario.schedule) else None

    def take(self, position: int, call: str, latency_s: float, size_bytes: int) -> None:
        if self._counts(position):
            ends = self._ends.setdefault((position, call), _Ends())
            ends.latencies_s.append(latency_s)
            ends.bytes += size_bytes

    def take_error(self, position: int, call: str, error: str, retryable: bool) -> None:
        # A stage that is not counted has no errors either that nobody hears of.
        self.all_errors[error] += 1
        if self._counts(position):
            ends = self._ends.setdefault((position, call), _Ends())
            ends.errors[error] += 1
            ends.retryable += retryable

    def _window(self, position: int) -> tuple[float, float]:
        return self._starts_s[position] + SETTLE_S, self._starts_s[position + 1]

    def _counts(self, position: int) -> bool:
        """Whether a call that ends now is counted: it has ended within the window of the stage that it began in."""
        start, end = self._window(position)
        return start <= self.elapsed_s() <= end

    def sample(self) -> None:
        now = self.elapsed_s()
        for name, process in self._processes.items():
            times, memory = process.cpu_times(), process.memory_info()
            taken = (now, times.user + times.system, memory.rss, process.num_threads())
            self.samples[name].append(taken)
        self.load_averages.append((now, psutil.getloadavg()[0]))

    def rows(self) -> list[Row]:
        schedule = enumerate(self._scenario.schedule)
        return [
            self._row(position, turn, stage, call) for position, (turn, stage) in schedule for call in stage.callers
        ]

    def _row(self, position: int, turn: int, stage: Stage, call: str) -> Row:
        ends = self._ends.get((position, call), _Ends())
        start, end = self._window(position)
        kind = self._kinds[call]
        server = "echo" if "echo" in kind else "server"
        cpu_s = self._cpu_s(server, start, end)
        done = len(ends.latencies_s)
        failed = sum(ends.errors.values())
        answered = sum(self._answered(position, other) for other in stage.callers if self._same_server(kind, other))
        within = [each for each in self.samples[server] if start <= each[0] <= end]
        latencies = np.array(ends.latencies_s or [np.nan]) * 1e3
        return Row(
            turn=turn,
            stage=stage.name,
            call=call,
            kind=kind,
            callers=stage.callers[call],
            calls=done,
            seconds=end - start,
            calls_per_s=done / (end - start),
            mb_per_s=ends.bytes / (end - start) / 1e6,
            p50_ms=float(np.percentile(latencies, 50)),
            p99_ms=float(np.percentile(latencies, 99)),
            errors=dict(ends.errors),
            error_share=failed / (done + failed) if done + failed else 0.0,
            retryable_share=ends.retryable / failed if failed else 1.0,
            cpu_ms=cpu_s / answered * 1e3 if answered else float("nan"),
            calls_per_core_s=answered / cpu_s if cpu_s else float("nan"),
            peak_mb=max((each[2] for each in within), default=0) / 1e6,
            threads=max((each[3] for each in within), default=0),
            generator_cores=self._cpu_s("generator", start, end) / (end - start),
            load_average=float(np.mean([load for at, load in self.load_averages if start <= at <= end] or [np.nan])),
        )

    def _answered(self, position: int, call: str) -> int:
        ends = self._ends.get((position, call), _Ends())
        return len(ends.latencies_s) + sum(ends.errors.values())

    def _same_server(self, kind: str, other: str) -> bool:
        return ("echo" in kind) == ("echo" in self._kinds[other])

    def _cpu_s(self, name: str, start: float, end: float) -> float:
        times, spent = zip(*((each[0], each[1]) for each in self.samples[name]), strict=True)
        return float(np.interp(end, times, spent) - np.interp(start, times, spent))

    def timeline(self) -> dict[str, Any]:
        """Returns time, megabytes and threads of the server, and when each stage began: for a plot."""
        at, _, resident, threads = zip(*self.samples["server"], strict=True)
        return {
            "seconds": at,
            "server_mb": [each / 1e6 for each in resident],
            "threads": threads,
            "stages": [
                (start, stage.name) for start, (_, stage) in zip(self._starts_s, self._scenario.schedule, strict=False)
            ],
        }
