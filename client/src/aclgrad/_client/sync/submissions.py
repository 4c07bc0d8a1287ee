"""Calls in the background: futures for synchronous code, on a bounded number of threads.

A thread makes a call as its caller would: with retries, in chunks, through shared memory. gRPC's own futures would take
no thread, but run callbacks on the thread that serves the whole channel: one that waits for another call would stop it.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, Protocol, TypeVar

MAX_THREADS: Final = 16
_LINGER_S: Final = 5.0
"""A thread without work ends after so long."""
_Result = TypeVar("_Result")


class Cancellable(Protocol):
    def cancel(self) -> Any: ...


class _Watch:
    """Cancels the part of a call that is under way when its future is cancelled; does not hold the future."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._part: Cancellable | None = None
        self.is_cancelled = False

    def watch(self, part: Cancellable) -> None:
        with self._lock:
            self._part = part
            is_cancelled = self.is_cancelled
        if is_cancelled:
            part.cancel()

    def on_done(self, future: Future[Any]) -> None:
        with self._lock:
            self.is_cancelled = future.cancelled()
            part, self._part = self._part, None
        if part is not None and self.is_cancelled:
            part.cancel()


class _Job(Generic[_Result]):
    """A call and its future, which stays pending until the outcome is known: so it can be cancelled during the call."""

    def __init__(self, run: Callable[[], _Result]) -> None:
        self.future: Future[_Result] = Future()
        self.watch = _Watch()
        self._run: Callable[[], _Result] | None = run
        self.future.add_done_callback(self.watch.on_done)

    def run(self) -> None:
        run, self._run = self._run, None
        if run is None or self.future.cancelled():
            self.future.set_running_or_notify_cancel()
            return
        try:
            result = run()
        except BaseException as error:
            if self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
            # The error's traceback has this frame.
            del run, self
        else:
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(result)


class _Current(threading.local):
    watch: _Watch | None = None


class Submissions:
    """Makes calls on up to `MAX_THREADS` threads, which start when they are needed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[_Job[Any]] = deque()
        self._threads = 0
        self._idle = 0
        self._is_released = False
        self._current = _Current()

    @property
    def is_in_background(self) -> bool:
        """Whether the thread that asks is one of ours."""
        return self._current.watch is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether the future of the call that this thread makes was cancelled."""
        return self._current.watch is not None and self._current.watch.is_cancelled

    def watch(self, part: Cancellable) -> None:
        """Has the future of the call that this thread makes, if it makes one, cancel this part of it."""
        if self._current.watch is not None:
            self._current.watch.watch(part)

    def submit(self, run: Callable[[], _Result]) -> Future[_Result]:
        """Returns the future of what `run` returns or raises."""
        job = _Job(run)
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif self._threads < MAX_THREADS:
                try:
                    threading.Thread(target=self._work, name="aclgrad-submit", daemon=True).start()
                    self._threads += 1
                except RuntimeError:
                    # The system has no more threads, or the interpreter ends: others may make the call.
                    if not self._threads:
                        self._jobs.pop()
                        raise
        return job.future

    def end_waiting(self) -> None:
        """Ends the calls that no thread has begun: a closed client refuses each of them at once."""
        with self._changed:
            jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.run()

    def release_threads(self) -> None:
        """Has threads without work end at once: the client is closed, or was forgotten."""
        with self._changed:
            self._is_released = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._current.watch = job.watch
            try:
                job.run()
            except BaseException:  # such as SystemExit in a callback
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            # The next one may be long in coming.
            self._current.watch = job = None

    def _next(self) -> _Job[Any] | None:
        with self._changed:
            while not self._jobs:
                self._idle += 1
                notified = not self._is_released and self._changed.wait(_LINGER_S)
                self._idle -= 1
                if not self._jobs and (self._is_released or not notified):
                    self._threads -= 1
                    return None
            return self._jobs.popleft()
