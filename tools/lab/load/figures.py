"""What came of the calls of each stage, and what the processes took meanwhile."""

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import numpy as np
import psutil

from tools.lab.latencies import Latencies
from tools.lab.load.scenario import SETTLE_S, Stage

SAMPLE_S: Final = 0.25


@dataclass(slots=True)
class Ends:
    """The calls of one caller: when each ended, with its seconds and bytes, or its error and whether to retry it."""

    answers: list[tuple[float, float, int]] = field(default_factory=list)
    errors: list[tuple[float, str, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stay:
    """A stage in one round, from its begin, with the ends of the calls of each caller."""

    turn: int
    stage: Stage
    begin: float
    ends: Mapping[str, list[Ends]]

    @property
    def end(self) -> float:
        return self.begin + self.stage.seconds

    @property
    def window(self) -> tuple[float, float]:
        """Calls that end outside are not counted."""
        return self.begin + SETTLE_S, self.end

    def answers(self, call: str) -> list[tuple[float, float, int]]:
        return [each for ends in self.ends[call] for each in ends.answers if self._counts(each[0])]

    def errors(self, call: str) -> list[tuple[float, str, bool]]:
        return [each for ends in self.ends[call] for each in ends.errors if self._counts(each[0])]

    def _counts(self, at: float) -> bool:
        begin, end = self.window
        return begin <= at <= end


class Watch:
    """Samples the processes by their names from `with` to the end of the block."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(process_id) for name, process_id in processes.items()}
        self._samples: dict[str, list[tuple[float, float, int, int]]] = {name: [] for name in processes}
        self._loads: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_sampling)

    def _keep_sampling(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        now = time.monotonic()
        for name, process in self._processes.items():
            times = process.cpu_times()
            taken = now, times.user + times.system, process.memory_info().rss, process.num_threads()
            self._samples[name].append(taken)
        self._loads.append((now, psutil.getloadavg()[0]))

    def cpu_s(self, name: str, window: tuple[float, float]) -> float:
        times, spent = zip(*((each[0], each[1]) for each in self._samples[name]), strict=True)
        begin, end = np.interp(window, times, spent)
        return float(end - begin)

    def peaks(self, name: str, window: tuple[float, float]) -> tuple[int, int]:
        """Returns the most bytes of memory, and the most threads."""
        within = [each for each in self._samples[name] if window[0] <= each[0] <= window[1]]
        return max((each[2] for each in within), default=0), max((each[3] for each in within), default=0)

    def load(self, window: tuple[float, float]) -> float:
        return float(np.mean([load for at, load in self._loads if window[0] <= at <= window[1]] or [np.nan]))

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._sample()


@dataclass(frozen=True, slots=True)
class Row:
    """One call in one stage of one round; what was not measured is not a number."""

    turn: int
    stage: str
    call: str
    callers: int
    calls: int
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


def rows_of(stays: Sequence[Stay], watch: Watch, of_echo: Collection[str]) -> list[Row]:
    return [_row(stay, call, watch, of_echo) for stay in stays for call in stay.stage.callers]


def _row(stay: Stay, call: str, watch: Watch, of_echo: Collection[str]) -> Row:
    answers, errors, window = stay.answers(call), stay.errors(call), stay.window
    seconds = window[1] - window[0]
    server = "echo" if call in of_echo else "server"
    cpu_s, (peak_bytes, threads) = watch.cpu_s(server, window), watch.peaks(server, window)
    beside = [each for each in stay.stage.callers if (each in of_echo) == (call in of_echo)]
    answered = sum(len(stay.answers(each)) + len(stay.errors(each)) for each in beside)
    took = Latencies.of(each[1] for each in answers)
    return Row(
        turn=stay.turn,
        stage=stay.stage.name,
        call=call,
        callers=stay.stage.callers[call],
        calls=len(answers),
        calls_per_s=len(answers) / seconds,
        mb_per_s=sum(each[2] for each in answers) / seconds / 1e6,
        p50_ms=took.ms(50),
        p99_ms=took.ms(99),
        errors=Counter(name for _, name, _ in errors),
        error_share=len(errors) / (len(answers) + len(errors)) if answers or errors else 0.0,
        retryable_share=sum(each[2] for each in errors) / len(errors) if errors else 1.0,
        cpu_ms=cpu_s / answered * 1e3 if answered else float("nan"),
        calls_per_core_s=answered / cpu_s if cpu_s else float("nan"),
        peak_mb=peak_bytes / 1e6,
        threads=threads,
        generator_cores=watch.cpu_s("generator", window) / seconds,
        load_average=watch.load(window),
    )
