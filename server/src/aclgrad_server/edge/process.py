"""What the process may use beside memory: open files, and time on the event loop."""

import asyncio
import logging
import resource
import time
from typing import Any, Final

log = logging.getLogger(__name__)

OTHER_FILES: Final = 768
"""Files other than connections of clients: those of the admin listener (512), shared memory, devices, libraries."""
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
