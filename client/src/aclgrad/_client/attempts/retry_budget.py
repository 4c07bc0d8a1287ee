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
        self._seconds: deque[list[int]] = deque([[int(clock()), 0]])
        """The number of each second, and of the calls that began in it."""
        self._call_count = 0
        self._under_way = 0
        self._held = 0
        """Retries that were taken and not yet made."""
        self._retries: deque[float] = deque()
        """When retries were made."""

    def __enter__(self) -> None:
        with self._lock:
            now = self._clock()
            if int(now) != self._seconds[-1][0]:
                self._forget(now)
            self._under_way += 1
            self._call_count += 1
            self._seconds[-1][1] += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1

    def take(self) -> bool:
        """Takes a retry, for `use` or `give_back`; returns False if there is none."""
        with self._lock:
            is_left = self._left(self._clock()) >= 1
            self._held += is_left
            return is_left

    def use(self) -> None:
        """Notes that a retry which was taken is made now."""
        with self._lock:
            self._held -= 1
            self._retries.append(self._clock())

    def give_back(self) -> None:
        """Gives back a retry that was taken and not made."""
        with self._lock:
            self._held -= 1

    @property
    def left(self) -> int:
        """How many retries there are at the moment."""
        with self._lock:
            return self._left(self._clock())

    def _left(self, now: float) -> int:
        self._forget(now)
        most = int(max(BURST, self._under_way) + SHARE * self._call_count)
        return max(0, most - self._held - len(self._retries))

    def _forget(self, now: float) -> None:
        if int(now) != self._seconds[-1][0]:
            self._seconds.append([int(now), 0])
        begin = now - PERIOD_S
        while self._retries and self._retries[0] <= begin:
            self._retries.popleft()
        while self._seconds[0][0] < begin:
            self._call_count -= self._seconds.popleft()[1]
