"""Liveness of the main loop and of background tasks, and readiness for calls."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aclgrad_server.service_manager import Watchdog

log = logging.getLogger(__name__)

BEAT_INTERVAL_S: Final = 0.05  # how often the main loop is expected to beat
BEAT_LIMIT_S: Final = 10.0
"""Age of a heartbeat that means a hung loop, far more than an overloaded process needs: busy ones are not restarted."""
RETRY_S: Final = 0.05  # after a failure
FAILURES_LIMIT_S: Final = 10.0
"""A background task that has failed for this long ends."""

Look = Callable[[], Awaitable[float | None]]
"""One round of a background task: returns the seconds until the next round, or None after the last."""


class Heartbeat:
    """Reports whether the main loop and its background tasks still run, also to systemd. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = clock()
        self.end: str | None = None
        """Why the process counts as dead for good, or None if it does not."""
        self._watchdog = Watchdog()

    def beat(self) -> None:
        self._last_s = self._clock()
        self._watchdog.beat(self._last_s, self.end)

    @property
    def age_s(self) -> float:
        """The seconds since the last beat, or since its creation."""
        return self._clock() - self._last_s

    def failure(self) -> str | None:
        """Returns why the process counts as dead, or None if it does not."""
        if self.end is None and (age_s := self.age_s) > BEAT_LIMIT_S:
            return f"the main loop has not run for {age_s:.0f} s (limit {BEAT_LIMIT_S:.0f} s)"
        return self.end


class Readiness:
    """Whether calls are welcome, and if not, why: "starting", "draining", "device lost", or which device is unfit.

    Any thread may read it; the main loop changes it.
    """

    def __init__(self) -> None:
        self.reason: str | None = "starting"
        """Why calls are not welcome, in public words; None if they are."""
        self.is_for_good = False
        """Whether calls are never welcome again in this process, because its device is unfit."""
        self.changed = asyncio.Event()
        """Set, and then replaced, when the reason changes or the heartbeat ends."""
        self.watch_count = 0
        """How many clients watch it."""

    def change(self, reason: str | None, is_for_good: bool = False) -> None:
        self.is_for_good = is_for_good
        self.reason = reason
        self.announce()

    def announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class BackgroundTasks:
    """Tasks of the main loop that have to run for the process to count as alive, until `stop`.

    A failed round is logged and repeated. A task that still ends by an exception ends the heartbeat.
    """

    def __init__(self, heartbeat: Heartbeat, on_failure: Callable[[], None] = lambda: None) -> None:
        self._heartbeat = heartbeat
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, look: Look) -> None:
        task = asyncio.create_task(_repeat(name, look), name=name)
        task.add_done_callback(self._end)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Returns when every task has ended and released its objects."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or task.exception() is None:
            return
        # First: even if the log fails, the process counts as dead.
        self._heartbeat.end = self._heartbeat.end or f"the background task {task.get_name()!r} has ended; see the log"
        self._on_failure()
        log.error("the background task %r has ended; restart the process", task.get_name(), exc_info=task.exception())


async def _repeat(name: str, look: Look) -> None:
    failing_since: float | None = None
    logged_at = -FAILURES_LIMIT_S
    pause_s: float | None = 0.0
    while pause_s is not None:
        await asyncio.sleep(pause_s)
        try:
            pause_s = await look()
            failing_since = None
        except (Exception, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            pause_s, now = RETRY_S, time.monotonic()
            failing_since = failing_since or now
            if now - failing_since >= FAILURES_LIMIT_S:
                raise
            if now - logged_at >= FAILURES_LIMIT_S:
                logged_at = now
                log.exception("the background task %r failed, and tries again", name)
