"""Rates and latencies of the last minute, from copies of the counts that are made every few seconds."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aclgrad_server.statistics.calls import CANCELLED, OK, OPERATOR_METHODS, CallStatistics, Failure
from aclgrad_server.statistics.histogram import Histogram

INTERVAL_S: Final = 5.0
WINDOW_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Recent:
    """What one operator did within `seconds`. Durations are those of RPCs; batches are under "none"."""

    seconds: float
    calls: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """How many calls ended with each reason other than OK."""
    durations: Histogram = field(default_factory=Histogram)

    @property
    def calls_per_s(self) -> float:
        return self.calls / self.seconds

    @property
    def failures(self) -> int:
        """How many failed: a client that has gone is no failure of ours."""
        return sum(count for reason, count in self.reasons.items() if reason != CANCELLED)


@dataclass(frozen=True, slots=True)
class _Copy:
    time_s: float
    calls: dict[tuple[str, str, str], int]
    failures: dict[Failure, int]
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
        calls: Counter[str] = Counter()
        reasons: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for (operator, method, reason), count in now.calls.items():
            new = count - before.calls.get((operator, method, reason), 0)
            calls[operator] += new
            if new and reason != OK:
                reasons[operator][reason] = reasons[operator].get(reason, 0) + new
        seconds = max(now.time_s - before.time_s, 1e-3)
        nothing = Histogram()
        return {
            operator: Recent(
                seconds,
                count,
                reasons[operator],
                now.durations.get(operator, nothing).since(before.durations.get(operator, nothing)),
            )
            for operator, count in calls.items()
            if count
        }

    def failures(self) -> dict[Failure, int]:
        """Returns how many calls failed within the window; any thread may ask."""
        before = self._before(self._clock()).failures
        now = self._statistics.failures()
        return {failure: count - before.get(failure, 0) for failure, count in now.items()}

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
        counts = self._statistics.calls(), self._statistics.failures()
        return _Copy(self._clock(), *counts, durations, self._loop_lag.copy())
