"""Reports callbacks that hold the event loop: while one runs, no other call makes progress."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

log = logging.getLogger(__name__)

_POLLER: Final = "_handle_events"
"""gRPC's callback that copies received messages, on which the server has no influence but their size."""


def install(limit_s: float) -> Callable[[], None]:
    """Logs a warning for each callback of any event loop that takes longer; returns what undoes that.

    It costs about a microsecond for each callback. asyncio's own debug mode, which reports them too, costs far more.
    """
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

    def undo() -> None:
        asyncio.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001

    return undo


def _name_of(callback: Any) -> str:
    """Returns what runs: the coroutine of a task, or the callback itself."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return str(getattr(task.get_coro(), "__qualname__", task.get_coro()))
    return str(getattr(callback, "__name__", callback))
