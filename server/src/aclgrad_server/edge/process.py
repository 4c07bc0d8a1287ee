"""What the process may use, and what happens before it is used up: open files, memory, time on the event loop."""

import asyncio
import logging
import os
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from aclgrad_server.calls.call import Calls
from aclgrad_server.devices.faults import StartError
from aclgrad_server.limits import MEMORY_HARD_LIMIT, MEMORY_SOFT_LIMIT

log = logging.getLogger(__name__)

OTHER_FILES: Final = 768
"""Files other than connections of clients: those of the admin listener (512), shared memory, devices, libraries."""
MIN_MEMORY_BYTES: Final = 128 * 2**20
"""What the interpreter, the libraries, small calls and a health check beside them take."""
INTERVAL_S: Final = 0.05
TRIM_INTERVAL_S: Final = 0.2
CUT_COUNT: Final = 16  # calls that are cut at once under pressure; the next look may cut more
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_POLLER: Final = "_handle_events"
"""gRPC's callback that copies received messages, on which the server has no influence but their size."""


def ensure_open_files(connection_limit: int) -> int:
    """Raises RLIMIT_NOFILE to what so many connections need, and returns how many may be let in.

    If these are fewer, a warning says so: beyond the limit nothing could be accepted, not even a health check.
    """
    needed = connection_limit + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connection_limit
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        message = "the limit of open files is %d, and %d connections need %d; raise it (ulimit -n, LimitNOFILE)"
        log.warning(message, allowed, connection_limit, needed)
    # A small limit leaves the other files, which are seldom as many, a half.
    return min(connection_limit, max(1, allowed - min(OTHER_FILES, allowed // 2)))


def check_memory(control_groups: Path = _CONTROL_GROUPS) -> None:
    """Raises StartError if memory is too little: the kernel would end the server amid calls, without a word."""
    limit = _control_group_limit(control_groups)
    if limit is not None and limit < MIN_MEMORY_BYTES:
        raise StartError(
            f"the memory limit of {limit / 2**20:.0f} MiB is less than the {MIN_MEMORY_BYTES / 2**20:.0f} MiB that "
            f"the server needs; give the container more"
        )


def memory_limit(setting: int | None, control_groups: Path = _CONTROL_GROUPS) -> int:
    """Returns the bytes that the process may use: the setting, the control group's limit, or all of the machine."""
    machine = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    return min(filter(None, (setting, _control_group_limit(control_groups), machine)))


def _control_group_limit(control_groups: Path) -> int | None:
    """Returns the limit of the control group that a container sees as its own, of either version; None without one."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        file = control_groups / name
        told = file.read_text().strip() if file.is_file() else ""
        if told.isdigit():
            return int(told)
    return None


def resident_bytes(statm: Path = _STATM) -> int:
    """Returns the memory of this process that is in RAM."""
    return int(statm.read_bytes().split()[1]) * _PAGE_BYTES


class MemoryWatch:
    """Frees memory, cuts calls that are being received, and refuses new ones, in that order, as memory runs out.

    gRPC tells neither how much of a message has arrived nor what it holds, so the whole process is watched.
    """

    def __init__(
        self,
        limit_bytes: int,
        trim: Callable[[], Awaitable[None]],
        calls: Calls,
        used_bytes: Callable[[], int] = resident_bytes,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._trim = trim
        self._calls = calls
        self._used_bytes = used_bytes
        self._is_pressed = False

    async def run(self) -> None:
        trim: asyncio.Task[None] | None = None
        trimmed = -TRIM_INTERVAL_S
        while True:
            self.look()
            is_due = time.monotonic() >= trimmed + TRIM_INTERVAL_S
            if self._is_pressed and is_due and (trim is None or trim.done()):
                trimmed = time.monotonic()
                # It waits for the devices, and memory runs out meanwhile.
                trim = asyncio.ensure_future(self._try_to_trim())
            await asyncio.sleep(INTERVAL_S)

    async def _try_to_trim(self) -> None:
        try:
            await self._trim()
        except Exception:
            log.exception("memory cannot be given back")

    def look(self) -> None:
        used = self._used_bytes() / self._limit_bytes
        was_pressed, self._is_pressed = self._is_pressed, used > MEMORY_SOFT_LIMIT
        self._calls.hold_reads(self._is_pressed)
        self._calls.refuse_for_memory(used > MEMORY_HARD_LIMIT)
        if not self._is_pressed:
            return
        # The first answer is to give free memory back: it may be all that is needed.
        cut = self._calls.cut_oldest_unfinished(CUT_COUNT) if was_pressed else 0
        if cut or not was_pressed:
            share, limit = used * 100, self._limit_bytes / 2**20
            log.warning("memory: %.0f %% of %.0f MiB used; %d unfinished calls were cut", share, limit, cut)


def install_loop_alarm(limit_s: float) -> None:
    """Logs each callback of an event loop that takes longer. It costs far less than asyncio's own debug mode."""
    run = asyncio.Handle._run  # noqa: SLF001 - there is no public hook

    def timed_run(handle: Any) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        run(handle)
        wall = time.perf_counter() - wall
        if wall > limit_s:
            cpu = time.thread_time() - cpu
            name = _name_of(handle._callback)  # noqa: SLF001
            held = "gRPC held the loop" if name == _POLLER else "loop held"
            log.warning("%s for %.1f ms, %.1f ms of it on the CPU: %s", held, wall * 1e3, cpu * 1e3, name)

    asyncio.Handle._run = timed_run  # type: ignore[assignment, method-assign]  # noqa: SLF001


def _name_of(callback: Any) -> str:
    """Returns what runs: the coroutine of a task, or the callback itself."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return str(getattr(task.get_coro(), "__qualname__", task.get_coro()))
    return str(getattr(callback, "__name__", callback))
