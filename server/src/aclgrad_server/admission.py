"""Bounds the calls that run and the calls that wait, exactly."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aclgrad.errors import DeadlinePassedError, ServerBusyError

RETRY_AFTER_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment."""

    running: int
    waiting: int


class Admission:
    """Lets `running_limit` calls run, lets `waiting_limit` more wait for their turn, and refuses the rest at once."""

    def __init__(self, running_limit: int, waiting_limit: int) -> None:
        self.running_limit = running_limit
        self.waiting_limit = waiting_limit
        self._turn = threading.Condition()
        self._running = 0
        self._waiting = 0

    @contextmanager
    def admit(self, deadline: float) -> Iterator[None]:
        """Holds a place until the block ends.

        Raises ServerBusyError where no place is free to wait in, and DeadlinePassedError where the turn did not come
        before `deadline`, a time of `time.monotonic`.
        """
        self._enter(deadline)
        try:
            yield
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify()

    def occupancy(self) -> Occupancy:
        with self._turn:
            return Occupancy(self._running, self._waiting)

    def _enter(self, deadline: float) -> None:
        with self._turn:
            if self._running >= self.running_limit and self._waiting >= self.waiting_limit:
                limit = self.running_limit + self.waiting_limit
                remedy = f"try again in {RETRY_AFTER_S} s"
                raise ServerBusyError(
                    f"the server has {limit} calls in flight and waiting, its limit; {remedy}",
                    remedy=remedy,
                    retry_after_s=RETRY_AFTER_S,
                    metadata={"limit": str(limit)},
                )
            self._waiting += 1
            try:
                has_turn = self._turn.wait_for(
                    lambda: self._running < self.running_limit, max(0.0, deadline - time.monotonic())
                )
            finally:
                self._waiting -= 1
            if not has_turn:
                remedy = "allow more time, or call a server with less to do"
                raise DeadlinePassedError(f"the deadline passed while the call waited; {remedy}", remedy=remedy)
            self._running += 1
