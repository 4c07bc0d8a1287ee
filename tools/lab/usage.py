"""What a process has taken of the machine: memory, open files and threads, now and at its peak."""

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from operator import sub
from pathlib import Path
from typing import Final, Self

SAMPLE_S: Final = 0.02
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

MEBIBYTE: Final = 2**20
_ROLLUP: Final = re.compile(r"^(Rss|Pss): +(\d+) kB$", re.MULTILINE)
_SHARED: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .* /dev/shm/", re.MULTILINE)


def figures_of(process_id: int) -> dict[str, float]:
    """Returns memory, open files, threads and connections by name; nothing if the process has ended.

    RSS and PSS are in MiB. Connections are sockets of any kind, those included on which the process listens.
    """
    folder = Path(f"/proc/{process_id}")
    try:
        memory = {name.upper(): int(kib) / 1024 for name, kib in _ROLLUP.findall((folder / "smaps_rollup").read_text())}
        shared = _SHARED.findall((folder / "maps").read_text())
        threads = len(os.listdir(folder / "task"))
        files = [_target(each) for each in (folder / "fd").iterdir()]
    except OSError:
        return {}
    if not memory:
        # A process that has ended and was not waited for has no memory.
        return {}
    return {
        **memory,
        "shared memory": sum(int(end, 16) - int(start, 16) for start, end in shared) / MEBIBYTE,
        "files": len(files),
        "threads": threads,
        "connections": sum(each.startswith("socket:") for each in files),
    }


def _target(file: Path) -> str:
    try:
        return os.readlink(file)
    except FileNotFoundError:
        return ""  # closed since it was listed


@dataclass(frozen=True, slots=True)
class Usage:
    """Resident memory, open files and threads. Differences are usages, too."""

    mb: float = 0.0
    files: int = 0
    threads: int = 0

    @classmethod
    def of(cls, process_id: int) -> Self:
        """Returns what the process has now; nothing if it has ended."""
        folder = Path(f"/proc/{process_id}")
        try:
            mb = int((folder / "statm").read_text().split()[1]) * PAGE_BYTES / MEBIBYTE
            return cls(mb, len(os.listdir(folder / "fd")), len(os.listdir(folder / "task")))
        except (OSError, IndexError):
            return cls()

    def largest(self, other: "Usage") -> "Usage":
        """Returns the larger of both in each kind."""
        return Usage(*map(max, astuple(self), astuple(other)))

    def beyond(self, other: "Usage") -> "Usage":
        """Returns how much more that is than the other."""
        return Usage(*map(sub, astuple(self), astuple(other)))

    def over(self, limit: "Usage") -> list[str]:
        """Returns what is more than the limit, in words."""
        told = (f"{self.mb:.0f} MB", f"{self.files} files", f"{self.threads} threads")
        return [each for each, mine, most in zip(told, astuple(self), astuple(limit), strict=True) if mine > most]


class Peak:
    """Samples what a process uses until the block ends, and keeps the most of each kind."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self.peak = self.now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def now(self) -> Usage:
        return Usage.of(self._process_id)

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.peak = self.peak.largest(self.now())

    def wait_until(self, is_enough: Callable[[Usage], bool], timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while not is_enough(self.now()) and time.monotonic() < end:
            time.sleep(SAMPLE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
