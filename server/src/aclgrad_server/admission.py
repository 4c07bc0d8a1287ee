"""Bounds the calls that run, the memory that they hold together, and the calls that wait; each exactly, in order."""

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aclgrad.errors import DeadlinePassedError, DeviceMemoryError, ServerBusyError

RETRY_AFTER_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes of those that run."""

    running: int
    waiting: int
    running_bytes: int = 0


class _Ticket:
    """A call that waits for its turn."""

    def __init__(self, lock: threading.Lock, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.has_turn = False
        self.changed = threading.Condition(lock)


class Admission:
    """Lets `running_limit` calls of `bytes_limit` bytes in all run, lets `waiting_limit` more wait, refuses the rest.

    Turns come in the order of arrival, so that a large call is not overtaken for ever by small ones.
    """

    def __init__(self, running_limit: int, waiting_limit: int, bytes_limit: int = sys.maxsize) -> None:
        self.running_limit = running_limit
        self.waiting_limit = waiting_limit
        self.bytes_limit = bytes_limit
        self._lock = threading.Lock()
        self._queue: deque[_Ticket] = deque()
        self._running = 0
        self._running_bytes = 0

    @contextmanager
    def admit(self, deadline: float, size_bytes: int = 0) -> Iterator[None]:
        """Holds a place and so many bytes until the block ends.

        Raises DeviceMemoryError for more bytes than the limit, ServerBusyError where no place is free to wait in, and
        DeadlinePassedError where the turn did not come before `deadline`, a time of `time.monotonic`.
        """
        self._enter(deadline, size_bytes)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._running_bytes -= size_bytes
                self._give_turns()

    def occupancy(self) -> Occupancy:
        with self._lock:
            return Occupancy(self._running, len(self._queue), self._running_bytes)

    def _enter(self, deadline: float, size_bytes: int) -> None:
        if size_bytes > self.bytes_limit:
            raise _too_large(size_bytes, self.bytes_limit)
        with self._lock:
            if not self._queue and self._has_room(size_bytes):
                self._take(size_bytes)
                return
            if len(self._queue) >= self.waiting_limit:
                raise _busy(self._running + len(self._queue))
            ticket = _Ticket(self._lock, size_bytes)
            self._queue.append(ticket)
            try:
                ticket.changed.wait_for(lambda: ticket.has_turn, max(0.0, deadline - time.monotonic()))
            finally:
                if not ticket.has_turn:
                    self._queue.remove(ticket)
                    # It may have been what the others waited behind.
                    self._give_turns()
        if not ticket.has_turn:
            remedy = "allow more time, or call a server with less to do"
            raise DeadlinePassedError(f"the deadline passed while the call waited; {remedy}", remedy=remedy)

    def _give_turns(self) -> None:
        while self._queue and self._has_room(self._queue[0].size_bytes):
            ticket = self._queue.popleft()
            self._take(ticket.size_bytes)
            ticket.has_turn = True
            ticket.changed.notify()

    def _has_room(self, size_bytes: int) -> bool:
        return self._running < self.running_limit and self._running_bytes + size_bytes <= self.bytes_limit

    def _take(self, size_bytes: int) -> None:
        self._running += 1
        self._running_bytes += size_bytes


def _too_large(size_bytes: int, limit: int) -> DeviceMemoryError:
    remedy = "send a smaller tensor, or raise --pool-bytes (ACLGRAD_POOL_BYTES)"
    return DeviceMemoryError(
        f"the call's tensors take {size_bytes} bytes and the memory pools hold {limit} in all; {remedy}",
        remedy=remedy,
        metadata={"size_bytes": str(size_bytes), "limit": str(limit)},
    )


def _busy(calls: int) -> ServerBusyError:
    remedy = f"try again in {RETRY_AFTER_S} s"
    return ServerBusyError(
        f"the server has {calls} calls in flight and waiting, its limit; {remedy}",
        remedy=remedy,
        retry_after_s=RETRY_AFTER_S,
        metadata={"limit": str(calls)},
    )
