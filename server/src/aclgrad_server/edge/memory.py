"""The memory of the process: how freed memory is kept and given back, and what happens before memory runs out."""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from aclgrad_server.calls.active import Calls
from aclgrad_server.devices.faults import StartError
from aclgrad_server.limits import MEMORY_HARD_LIMIT, MEMORY_SOFT_LIMIT
from aclgrad_server.liveness import BackgroundTasks

log = logging.getLogger(__name__)

MIN_MEMORY_BYTES: Final = 128 * 2**20
"""What the interpreter, the libraries, small calls and a health check beside them take."""
INTERVAL_S: Final = 0.05
BUSY_INTERVAL_S: Final = 0.01
"""Between two looks when more than half is used: messages on one machine bring 2 GB in a second."""
TRIM_INTERVAL_S: Final = 0.2
CUT_COUNT: Final = 16  # calls that are cut at once under pressure
_ROOT: Final = Path("/")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def check_memory(root: Path = _ROOT) -> None:
    """Raises StartError if memory is too little: the kernel would end the server amid calls, without a word."""
    limit = _control_group_limit(root)
    if limit is not None and limit < MIN_MEMORY_BYTES:
        raise StartError(
            f"the memory limit of {limit / 2**20:.0f} MiB is less than the {MIN_MEMORY_BYTES / 2**20:.0f} MiB that "
            f"the server needs; give the container or the service more"
        )


def memory_limit(setting: int | None, root: Path = _ROOT) -> int:
    """Returns the bytes that the process may use: the setting, the control groups' limit, or all of the machine."""
    machine = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    return min(filter(None, (setting, _control_group_limit(root), machine)))


def _control_group_limit(root: Path) -> int | None:
    """Returns the smallest limit of the process's control groups and of all that hold them; None without one."""
    told = (file.read_text().strip() for file in _limit_files(root) if file.is_file())
    return min((int(each) for each in told if each.isdigit()), default=None)


def _limit_files(root: Path) -> Iterator[Path]:
    """Yields where limits of either version may be.

    A container may see its own group as the mount itself, not under the path of /proc; then only the mount is there.
    """
    groups, mounts = root / "proc/self/cgroup", root / "sys/fs/cgroup"
    for line in groups.read_text().splitlines() if groups.is_file() else ():
        _, _, rest = line.partition(":")
        controllers, separator, group = rest.partition(":")
        if separator and not controllers:
            mount, name = mounts, "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = mounts / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = mount / group.lstrip("/")
        yield from (each / name for each in (folder, *folder.parents) if each.is_relative_to(mount))


def resident_bytes() -> int:
    """Returns the memory of this process that is in RAM, also if the process has no free file."""
    return int(os.pread(_statm(), _PAGE_BYTES, 0).split()[1]) * _PAGE_BYTES


@cache
def _statm() -> int:
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


class MemoryWatch:
    """Frees memory, cuts calls that are being received, and refuses new ones, in that order, as memory runs out.

    gRPC tells neither how much of a message has arrived nor what it holds, so the whole process is watched. Free memory
    is also given back once when no call came for `idle_trim_s`; 0: never.
    """

    def __init__(
        self,
        limit_bytes: int,
        idle_trim_s: float,
        trim: Callable[[], Awaitable[None]],
        calls: Calls,
        used_bytes: Callable[[], int] = resident_bytes,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        """As of the last look."""
        self._idle_trim_s = idle_trim_s
        self._trim = trim
        self._calls = calls
        self._read_used_bytes = used_bytes
        self._is_pressed = False
        self._is_over = False
        self._is_half_used = False
        self._cut_due = 0.0
        self._seen = self._trimmed = calls.event_count
        self._seen_at = time.monotonic()

    def start(self, tasks: BackgroundTasks) -> None:
        tasks.start("memory watch", self._watch)
        # A task of its own: it waits for the devices, and memory runs out meanwhile.
        tasks.start("memory trim", self._give_back)

    async def _watch(self) -> float:
        self.look()
        return self._pause_s()

    async def _give_back(self) -> float:
        if not (self._is_pressed or self._is_idle()):
            return self._pause_s()
        self._trimmed = self._calls.event_count
        await self._trim()
        return TRIM_INTERVAL_S

    def _pause_s(self) -> float:
        return BUSY_INTERVAL_S if self._is_half_used else INTERVAL_S

    @property
    def pressure(self) -> int:
        """0; 1 above the soft limit; 2 above the hard limit."""
        return self._is_pressed + self._is_over

    def _is_idle(self) -> bool:
        """Says whether calls have come since the last trim, and none for a while."""
        if self._calls.any() or self._calls.event_count != self._seen:
            self._seen, self._seen_at = self._calls.event_count, time.monotonic()
        is_quiet = time.monotonic() - self._seen_at >= self._idle_trim_s > 0
        return is_quiet and self._seen != self._trimmed

    def look(self) -> None:
        self.used_bytes = self._read_used_bytes()
        used = self.used_bytes / self.limit_bytes
        was_pressed, self._is_pressed = self._is_pressed, used > MEMORY_SOFT_LIMIT
        self._is_over = used > MEMORY_HARD_LIMIT
        self._is_half_used = used > 0.5
        self._calls.hold_reads(self._is_pressed)
        self._calls.refuse_for_memory(self._is_over)
        if not self._is_pressed:
            return
        now = time.monotonic()
        if not was_pressed:
            # The first answer is to give free memory back: it may be all that is needed.
            self._cut_due = now + INTERVAL_S
        cut = 0
        if self._is_over or now >= self._cut_due:
            cut = self._calls.cut_oldest_unfinished(CUT_COUNT)
            self._cut_due = now + INTERVAL_S
        if cut or not was_pressed:
            share, limit = used * 100, self.limit_bytes / 2**20
            log.warning("memory: %.0f %% of %.0f MiB used; %d unfinished calls were cut", share, limit, cut)
