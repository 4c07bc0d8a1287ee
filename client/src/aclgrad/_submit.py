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
"""A thread without work ends after so long: a client that is forgotten leaves none behind."""
_Result = TypeVar("_Result")


class Cancellable(Protocol):
    def cancel(self) -> Any: ...


class _Job(Generic[_Result]):
    """A call, its future, and what there is to cancel of it.

    The future stays pending until its outcome is known, so that it can be cancelled during the call too.
    """

    def __init__(self, run: Callable[[], _Result]) -> None:
        self.future: Future[_Result] = Future()
        self._run: Callable[[], _Result] | None = run
        self._lock = threading.Lock()
        self._watched: Cancellable | None = None
        self.future.add_done_callback(self._on_done)

    def watch(self, part: Cancellable) -> None:
        """Has the future cancel this part of the call, at once if it is cancelled already."""
        with self._lock:
            self._watched = part
        if self.future.cancelled():
            part.cancel()

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

    def _on_done(self, future: Future[_Result]) -> None:
        with self._lock:
            watched, self._watched = self._watched, None
        if watched is not None and future.cancelled():
            watched.cancel()


class _Current(threading.local):
    job: _Job[Any] | None = None


class Submissions:
    """Makes calls on up to `MAX_THREADS` threads, which start when they are needed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[_Job[Any]] = deque()
        self._threads = 0
        self._idle = 0
        self._current = _Current()

    @property
    def is_in_background(self) -> bool:
        """Whether the thread that asks is one of ours."""
        return self._current.job is not None

    def watch(self, part: Cancellable) -> None:
        """Has the future of the call that this thread makes, if it makes one, cancel this part of it."""
        if self._current.job is not None:
            self._current.job.watch(part)

    def submit(self, run: Callable[[], _Result]) -> Future[_Result]:
        """Returns the future of what `run` returns or raises."""
        job = _Job(run)
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif self._threads < MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._work, name="aclgrad-submit", daemon=True).start()
        return job.future

    def end_waiting(self) -> None:
        """Ends the calls that no thread has begun: a closed client refuses each of them at once."""
        with self._changed:
            jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.run()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._current.job = job
            try:
                job.run()
            except BaseException:  # such as SystemExit in a callback
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            # The next one may be long in coming.
            self._current.job = job = None

    def _next(self) -> _Job[Any] | None:
        with self._changed:
            while not self._jobs:
                self._idle += 1
                notified = self._changed.wait(_LINGER_S)
                self._idle -= 1
                if not notified and not self._jobs:
                    self._threads -= 1
                    return None
            return self._jobs.popleft()
