"""Servers and load processes: starts them, repeats calls for a while, and reports rates, CPU time and memory."""

import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self

import grpc
import psutil

import aclgrad
from tools.benchmarks import loads
from tools.benchmarks.loads import Caller
from tools.benchmarks.sizes import Size
from tools.serving import announced

LOAD_PROCESSES: Final = 4
"""A Python process makes fewer small calls than a server answers, so several share the load."""
WARM_UP_S: Final = 0.2


class Served:
    """A server in a process of its own, with its CPU time and memory."""

    def __init__(self, process: subprocess.Popen[str], addresses: str) -> None:
        self.address, *others = addresses.split()
        self.local_address = others[-1] if others else self.address
        """A unix socket, where the server has one."""
        self._process = psutil.Process(process.pid)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def forget_peak(self) -> None:
        try:
            Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        except OSError:
            return  # then the peak is that of the whole run

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        told = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(told[1]) * 1024 if told else self._process.memory_info().rss


@contextmanager
def running(module: str, *flags: str, python: str = sys.executable, **variables: str) -> Iterator[Served]:
    """Yields a server that lives as long as the block; it prints `ready: ADDRESS`."""
    command = [python, "-m", module, *flags]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACLGRAD_", "MALLOC_"))}
    # Into a file, because a full pipe without a reader would stop the server.
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=kept | variables) as process,
    ):
        try:
            assert process.stdout is not None
            found = announced(process.stdout)
            if "ready" not in found:
                errors.seek(0)
                raise RuntimeError(f"{module} did not start: {found} {errors.read()}")
            yield Served(process, found["ready"])
        finally:
            process.terminate()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps so many cores busy with work of the same priority."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


@dataclass(frozen=True, slots=True)
class Task:
    """The task of every load process: callers of one kind, their total number, and a duration."""

    load: str
    address: str
    size: Size
    concurrency: int
    seconds: float


@dataclass(slots=True)
class Sample:
    """One measurement."""

    calls_per_s: float
    latencies_s: list[float] = field(repr=False)
    cpu_s_per_call: float = 0.0
    peak_bytes: int = 0

    @property
    def mean_s(self) -> float:
        return statistics.mean(self.latencies_s)

    @property
    def median_s(self) -> float:
        return statistics.median(self.latencies_s)

    @property
    def p99_s(self) -> float:
        return sorted(self.latencies_s)[min(len(self.latencies_s) - 1, len(self.latencies_s) * 99 // 100)]


class NotServedError(RuntimeError):
    """The server does not have the method, or refuses the row's calls."""


class LoadGroup:
    """Processes that make calls at the same time; started once, told what to do for each measurement."""

    def __init__(self, tuned: bool = True) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(LOAD_PROCESSES)
        pipes = [context.Pipe() for _ in range(LOAD_PROCESSES)]
        self._pipes = [ours for ours, _ in pipes]
        self._processes = [
            context.Process(target=_work, args=(theirs, self._barrier, index, tuned), daemon=True)
            for index, (_, theirs) in enumerate(pipes)
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()

    def measure(self, task: Task, served: Served) -> Sample:
        """Returns the cost of the calls; raises NotServedError if they are refused."""
        self.warm(task)
        served.forget_peak()
        cpu_s = served.cpu_s()
        sample = self.repeat(task)
        sample.cpu_s_per_call = (served.cpu_s() - cpu_s) / len(sample.latencies_s)
        sample.peak_bytes = served.peak_bytes()
        return sample

    def warm(self, task: Task) -> None:
        """Connects the callers of the task, and has each make a call, if that was not done yet."""
        self._tell((task, True))

    def repeat(self, task: Task) -> Sample:
        """Returns the sample of callers that are warm."""
        parts = self._tell((task, False))
        latencies = [latency for part in parts for latency in part[2]]
        first, last = min(part[0] for part in parts), max(part[1] for part in parts)
        return Sample(len(latencies) / (last - first), latencies)

    def _tell(self, order: tuple[Task, bool]) -> list[tuple[float, float, list[float]]]:
        for pipe in self._pipes:
            pipe.send(order)
        answers: list[Any] = [pipe.recv() for pipe in self._pipes]
        refused = [answer for answer in answers if isinstance(answer, str)]
        if refused:
            raise NotServedError(refused[0])
        return [answer for answer in answers if answer is not None]


def _work(pipe: Connection, barrier: Any, index: int, tuned: bool) -> None:
    """The life of a load process: a first call of each caller on the first order, the measured ones on the second."""
    if tuned:
        aclgrad.tune_allocator()
    callers: dict[Task, list[Caller]] = {}
    size = None
    while (order := pipe.recv()) is not None:
        task, is_first = order
        if task.size != size:
            # Connections of one size at a time: they hold on to memory.
            callers.clear()
            loads.forget()
            size = task.size
        answer: Any = None
        share = len(range(index, task.concurrency, LOAD_PROCESSES))
        try:
            if task not in callers:
                callers[task] = [getattr(loads, task.load)(task.address, task.size) for _ in range(share)]
                # At once, as they will call later: at such moments either side asks for the memory that it will need.
                _repeat(callers[task], WARM_UP_S)
            if not is_first:
                barrier.wait()
                answer = _repeat(callers[task], task.seconds)
        except (grpc.RpcError, aclgrad.AclgradError, loads.ShortReplyError) as error:
            answer = error.code().name if isinstance(error, grpc.RpcError) else str(error)
        pipe.send(answer)
    loads.forget()


def _repeat(callers: Sequence[Caller], seconds: float) -> tuple[float, float, list[float]] | None:
    """Returns when the first call began, when the last one ended, and how long each took."""
    if not callers:
        return None
    start = time.monotonic()
    with ThreadPoolExecutor(len(callers)) as threads:
        parts = list(threads.map(lambda caller: _repeat_one(caller, start + seconds), callers))
    return start, time.monotonic(), [latency for part in parts for latency in part]


def _repeat_one(caller: Caller, end: float) -> list[float]:
    latencies: list[float] = []
    now = time.monotonic()
    while not latencies or now < end:
        start = now
        caller()
        now = time.monotonic()
        latencies.append(now - start)
    return latencies
