"""What the retries of one client may add to the load of servers that are in trouble already."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

SHARE: Final = 0.1
"""Retries for each call of the last minute."""
BURST: Final = 100
"""Retries beyond them, in a minute; more if more calls are under way, each of which a lost connection may have met."""
PERIOD_S: Final = 60


class RetryBudget:
    """Counts the calls and retries of the last minute. A call is under way within `with`. For any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds: deque[tuple[int, int]] = deque()
        """Calls that began in a second, by its number; the present one is not among them."""
        self._second, self._in_second, self._call_count = int(clock()), 0, 0
        self._under_way = 0
        self._retries: deque[float] = deque()

    def __enter__(self) -> None:
        with self._lock:
            now = self._clock()
            if int(now) != self._second:
                self._forget(now)
            self._under_way += 1
            self._call_count += 1
            self._in_second += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1

    def spend(self) -> bool:
        """Takes a retry; returns False if there is none."""
        with self._lock:
            now = self._clock()
            if self._left(now) < 1:
                return False
            self._retries.append(now)
            return True

    def give_back(self) -> None:
        """Gives back a retry that was taken and not made; which one makes no difference."""
        with self._lock:
            if self._retries:
                self._retries.pop()

    @property
    def left(self) -> int:
        """How many retries there are at the moment."""
        with self._lock:
            return self._left(self._clock())

    def _left(self, now: float) -> int:
        self._forget(now)
        return max(0, int(max(BURST, self._under_way) + SHARE * self._call_count) - len(self._retries))

    def _forget(self, now: float) -> None:
        if int(now) != self._second:
            self._seconds.append((self._second, self._in_second))
            self._second, self._in_second = int(now), 0
        begin = now - PERIOD_S
        while self._retries and self._retries[0] <= begin:
            self._retries.popleft()
        while self._seconds and self._seconds[0][0] < begin:
            self._call_count -= self._seconds.popleft()[1]
