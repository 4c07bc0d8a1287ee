"""The one way to measure: rows take turns for several rounds, and a ratio compares two rows within each round."""

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tools.serving import announced

SERVER: Final = "aclgrad_server"
SERVER_FLAGS: Final = (
    *("--backend", "host", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
    *("--log-level", "warning"),
)
Figures = Mapping[str, float]
"""What a row measures in one round, by name."""


class Samples:
    """The figures of one row, a sample for each round."""

    def __init__(self) -> None:
        self.rounds: list[Figures] = []

    def median(self, figure: str) -> float:
        return statistics.median(each[figure] for each in self.rounds)

    def least(self, figure: str) -> float:
        """Returns the best round of code that is the same in each: whatever disturbs it takes time."""
        return min(each[figure] for each in self.rounds)

    def ratio(self, other: "Samples", figure: str) -> float:
        """Returns the median of the ratios to the other row within each round, which other load changes less."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(mine[figure] / theirs[figure] for mine, theirs in pairs)


def in_turns(rows: Mapping[str, Callable[[], Figures]], rounds: int) -> dict[str, Samples]:
    """Measures every row once in each round, from either end in turns: a slower machine favours no row."""
    found = {name: Samples() for name in rows}
    for number in range(rounds):
        for name in reversed(rows) if number % 2 else rows:
            found[name].rounds.append(rows[name]())
    return found


class ServerUnderTest:
    """A server in a process of its own, with its CPU time and memory."""

    def __init__(self, process_id: int, addresses: str) -> None:
        self.address, *others = addresses.split()
        self.local_address = others[-1] if others else self.address
        """A unix socket, if the server has one."""
        self._process = psutil.Process(process_id)

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
def running(module: str, *flags: str, python: str = sys.executable) -> Iterator[ServerUnderTest]:
    """Yields a server that lives as long as the block; it prints `ready: ADDRESS`."""
    command = [python, "-m", module, *flags]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACLGRAD_", "MALLOC_"))}
    # Into a file, because a full pipe without a reader would stop the server.
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=kept) as process,
    ):
        try:
            assert process.stdout is not None
            found = announced(process.stdout)
            if "ready" not in found:
                errors.seek(0)
                raise RuntimeError(f"{module} did not start: {found} {errors.read()}")
            yield ServerUnderTest(process.pid, found["ready"])
        finally:
            process.terminate()
