"""Rates and latencies of the last minute, from copies of the counts that are made every few seconds."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from aclgrad_server.statistics.calls import OPERATOR_METHODS, CallStatistics, Failure
from aclgrad_server.statistics.histogram import Histogram

INTERVAL_S: Final = 5.0
WINDOW_S: Final = 60.0


class Recent(NamedTuple):
    """What one operator did. Durations are those of RPCs; batches are under "none"."""

    calls_per_s: float
    durations: Histogram


@dataclass(frozen=True, slots=True)
class _Copy:
    time_s: float
    calls: Counter[str]
    failures: Counter[Failure]
    durations: dict[str, Histogram]
    loop_lag: Histogram


class RecentCalls:
    """Compares the counts of now with those of a minute ago, or of the start."""

    def __init__(
        self, statistics: CallStatistics, loop_lag: Histogram, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._statistics = statistics
        self._loop_lag = loop_lag
        self._clock = clock
        self._copies = deque([self._copy()], maxlen=round(WINDOW_S / INTERVAL_S) + 1)

    def sweep(self) -> None:
        """Makes a copy if one is due. To be called some times a second."""
        if self._clock() - self._copies[-1].time_s >= INTERVAL_S:
            self._copies.append(self._copy())

    def by_operator(self) -> dict[str, Recent]:
        """Returns what the operators did that had calls within the window; any thread may ask."""
        now = self._copy()
        before = self._before(now.time_s)
        seconds, nothing = max(now.time_s - before.time_s, 1e-3), Histogram()
        found = {}
        for operator, count in (now.calls - before.calls).items():
            durations = now.durations.get(operator, nothing).since(before.durations.get(operator, nothing))
            found[operator] = Recent(count / seconds, durations)
        return found

    def failures(self) -> Counter[Failure]:
        """Returns how many calls failed within the window; any thread may ask."""
        return self._statistics.failures() - self._before(self._clock()).failures

    def loop_lag(self) -> Histogram:
        """Returns how late the beats within the window were; any thread may ask."""
        return self._loop_lag.since(self._before(self._clock()).loop_lag)

    def _before(self, now_s: float) -> _Copy:
        """Returns the copy at the beginning of the window."""
        copies = tuple(self._copies)
        # A main loop that hung has made no copies, and the oldest may be older.
        return next((each for each in copies if now_s - each.time_s <= WINDOW_S + INTERVAL_S), copies[-1])

    def _copy(self) -> _Copy:
        durations: dict[str, Histogram] = {}
        for (method, operator), row in dict(self._statistics.rows).items():
            if method in OPERATOR_METHODS:
                mine = row.durations.copy()
                durations[operator] = durations[operator].plus(mine) if operator in durations else mine
        calls: Counter[str] = Counter()
        for (operator, _, _), count in self._statistics.calls().items():
            calls[operator] += count
        return _Copy(self._clock(), calls, self._statistics.failures(), durations, self._loop_lag.copy())
