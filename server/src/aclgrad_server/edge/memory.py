"""The memory of the process: trimming when idle, and shedding load before it runs out."""

import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.limits import MEMORY_HARD_LIMIT, MEMORY_SOFT_LIMIT
from aclgrad_server.liveness import BackgroundTasks

log = logging.getLogger(__name__)

INTERVAL_S: Final = 0.05
BUSY_INTERVAL_S: Final = 0.01
"""Interval of checks when more than half is used: messages on one machine bring 2 GB in a second."""
TRIM_INTERVAL_S: Final = 0.2
IDLE_TRIM_S = 30.0
CUT_COUNT: Final = 16  # calls that are cut at once under pressure
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def resident_bytes() -> int:
    """Returns this process's memory in RAM, even if the process has no free file descriptor."""
    return int(os.pread(_STATM, _PAGE_BYTES, 0).split()[1]) * _PAGE_BYTES


class MemoryWatch:
    """As memory runs out, first frees memory, then cuts calls that are being received, then refuses new ones.

    gRPC does not report how much of a message has arrived or how much it buffers, so the whole process is watched. Free
    memory is also given back once after IDLE_TRIM_S without calls.
    """

    def __init__(
        self,
        limit_bytes: int,
        trim: Callable[[], Awaitable[None]],
        calls: OpenCalls,
        used_bytes: Callable[[], int] = resident_bytes,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        """As of the last check."""
        self._trim = trim
        self._calls = calls
        self._read_used_bytes = used_bytes
        self.pressure = 0
        """0; 1 above the soft limit; 2 above the hard limit."""
        self._cut_due = 0.0
        self._trimmed_at = time.monotonic()

    def start(self, tasks: BackgroundTasks) -> None:
        tasks.start("memory watch", self._watch)
        # A task of its own, because it waits for the device, and memory may run out meanwhile.
        tasks.start("memory trim", self._give_back)

    async def _watch(self) -> float:
        self.look()
        return self._pause_s()

    async def _give_back(self) -> float:
        # There were calls since the last trim, but none for a while.
        is_idle = self._trimmed_at < self._calls.changed_at < time.monotonic() - IDLE_TRIM_S
        if not (self.pressure or (is_idle and not self._calls.active_count)):
            return self._pause_s()
        self._trimmed_at = time.monotonic()
        await self._trim()
        return TRIM_INTERVAL_S

    def _pause_s(self) -> float:
        return BUSY_INTERVAL_S if self.used_bytes > self.limit_bytes / 2 else INTERVAL_S

    def look(self) -> None:
        self.used_bytes = self._read_used_bytes()
        used = self.used_bytes / self.limit_bytes
        was_pressed, self.pressure = self.pressure > 0, (used > MEMORY_SOFT_LIMIT) + (used > MEMORY_HARD_LIMIT)
        self._calls.set_memory_pressure(self.pressure)
        if not self.pressure:
            return
        now = time.monotonic()
        if not was_pressed:
            # Giving free memory back may be enough.
            self._cut_due = now + INTERVAL_S
        cut = 0
        if self.pressure > 1 or now >= self._cut_due:
            cut = self._calls.cut_oldest_unfinished(CUT_COUNT)
            self._cut_due = now + INTERVAL_S
        if cut or not was_pressed:
            share, limit = used * 100, self.limit_bytes / 2**20
            log.warning("memory: %.0f %% of %.0f MiB used; %d unfinished calls were cut", share, limit, cut)
