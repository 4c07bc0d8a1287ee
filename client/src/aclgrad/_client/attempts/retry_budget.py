"""Bounds the retries of one client, in calls and in bytes, so that they do not overload servers in trouble."""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

SHARE: Final = 0.1
"""Retries per call of the last minute, and retried bytes per byte."""
BURST: Final = 100
"""Further retries in a minute; more if more calls are under way, because all may have lost their connection."""
BURST_BYTES: Final = 64 * 2**20
"""Further bytes, or as many as the calls under way have."""
PERIOD_S: Final = 60

TOO_MANY_CALLS: Final = (
    f"in the last minute this client has sent calls again as often as it may, for {100 * SHARE:g} % of its calls and "
    f"{BURST} more"
)
TOO_MANY_BYTES: Final = (
    f"with it, this client would send again more than {100 * SHARE:g} % of the bytes of its calls of the last minute, "
    f"and {BURST_BYTES // 2**20} MiB more"
)


class RetryBudget:
    """Counts the calls and retries of the last minute, and their bytes. For any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds: deque[list[int]] = deque([[int(clock()), 0, 0]])
        """Each second's number, its begun calls, and their bytes."""
        self._call_count = self._call_bytes = 0
        self._under_way = self._bytes_under_way = 0
        self._held = self._held_bytes = 0
        """Retries that are taken and not yet made."""
        self._retries: deque[tuple[float, int]] = deque()
        """The times of retries, and the bytes that they sent again."""
        self._retried_bytes = 0

    def call(self) -> "CountedCall":
        """Returns a call that is not under way yet."""
        return CountedCall(self)

    def begin(self, size_bytes: int) -> None:
        """Notes that a call is under way."""
        with self._lock:
            self._under_way += 1
            self._count(1, size_bytes)

    def resize(self, before: int, after: int) -> None:
        """Notes the new size of a call under way."""
        with self._lock:
            if after > before:
                self._count(0, after - before)
            else:
                self._bytes_under_way += after - before

    def end(self, size_bytes: int) -> None:
        """Notes that a call has ended."""
        with self._lock:
            self._under_way -= 1
            self._bytes_under_way -= size_bytes

    def take(self, size_bytes: int) -> str:
        """Takes a retry, for `use` or `give_back`; returns why there is none, or nothing."""
        with self._lock:
            if not self._left(self._clock()):
                return TOO_MANY_CALLS
            if size_bytes > self._bytes_left:
                return TOO_MANY_BYTES
            self._held += 1
            self._held_bytes += size_bytes
            return ""

    def use(self, size_bytes: int) -> None:
        """Notes that a taken retry is made now."""
        with self._lock:
            self._held -= 1
            self._held_bytes -= size_bytes
            self._retries.append((self._clock(), size_bytes))
            self._retried_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Gives back a taken retry that was not made."""
        with self._lock:
            self._held -= 1
            self._held_bytes -= size_bytes

    @property
    def left(self) -> int:
        """How many retries are left now, if their bytes are few."""
        with self._lock:
            return self._left(self._clock())

    def _count(self, calls: int, size_bytes: int) -> None:
        now = self._clock()
        if int(now) != self._seconds[-1][0]:
            self._forget(now)
        latest = self._seconds[-1]
        latest[1] += calls
        latest[2] += size_bytes
        self._call_count += calls
        self._call_bytes += size_bytes
        self._bytes_under_way += size_bytes

    def _left(self, now: float) -> int:
        self._forget(now)
        most = int(max(BURST, self._under_way) + SHARE * self._call_count)
        return max(0, most - self._held - len(self._retries))

    @property
    def _bytes_left(self) -> float:
        most = max(BURST_BYTES, self._bytes_under_way) + SHARE * self._call_bytes
        return most - self._held_bytes - self._retried_bytes

    def _forget(self, now: float) -> None:
        if int(now) != self._seconds[-1][0]:
            self._seconds.append([int(now), 0, 0])
        begin = now - PERIOD_S
        while self._retries and self._retries[0][0] <= begin:
            self._retried_bytes -= self._retries.popleft()[1]
        while self._seconds[0][0] < begin:
            _, calls, size_bytes = self._seconds.popleft()
            self._call_count -= calls
            self._call_bytes -= size_bytes


class CountedCall:
    """A call as counted by a budget: under way within `with`, with one retry at a time. For one thread."""

    __slots__ = ("_budget", "_held_bytes", "_size_bytes")

    def __init__(self, budget: RetryBudget) -> None:
        self._budget = budget
        self._size_bytes = 0
        self._held_bytes: int | None = None
        """The bytes of the taken retry, or None."""

    def of(self, size_bytes: int) -> Self:
        """Sets the bytes of the call before it begins."""
        self._size_bytes = size_bytes
        return self

    def __enter__(self) -> Self:
        self._budget.begin(self._size_bytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._budget.end(self._size_bytes)

    def resize(self, size_bytes: int) -> None:
        """Sets the bytes of the next attempt."""
        if size_bytes != self._size_bytes:
            self._budget.resize(self._size_bytes, size_bytes)
            self._size_bytes = size_bytes

    def take(self) -> str:
        """Takes the retry; returns why there is none, or nothing."""
        refusal = self._budget.take(self._size_bytes)
        if not refusal:
            self._held_bytes = self._size_bytes
        return refusal

    def use(self) -> None:
        """Notes that the retry is made now, if it was taken."""
        if self._held_bytes is not None:
            self._budget.use(self._held_bytes)
            self._held_bytes = None

    def give_back(self) -> None:
        """Gives the retry back, if it was taken."""
        if self._held_bytes is not None:
            self._budget.give_back(self._held_bytes)
            self._held_bytes = None
