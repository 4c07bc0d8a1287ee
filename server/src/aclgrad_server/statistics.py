"""What the server counts of its calls. The main loop writes, any thread reads; nobody takes a lock."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from aclgrad.operators.catalogue import OPERATORS

OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
UNKNOWN: Final = "unknown"
"""The operator of calls whose operator the server does not know: what a client sends never becomes a label."""
NONE: Final = "none"
"""The operator of calls that have none, or that ended before it was known."""
OPERATOR_METHODS: Final = ("ExecuteOperator", "ExecuteOperatorChunked", "BatchExecuteOperators")
BATCH: Final = "BatchExecuteOperators"
_UNKNOWN_OPERATOR: Final = "UNKNOWN_OPERATOR"

STAGES: Final = ("receive", "plan", "wait", "run", "reply")
"""What a call waits for: its message, its plan, admission, the device, and its reply to leave."""
RECEIVE, PLAN, WAIT, RUN, REPLY = range(len(STAGES))

_BUCKETS: Final = 64  # more than any duration has bits
INTERVAL_S: Final = 5.0
WINDOW_S: Final = 60.0

OperatorAndReason = tuple[str, str]


class Histogram:
    """Durations that one thread adds, and that any thread reads."""

    __slots__ = ("counts", "total_s")

    def __init__(self, counts: Sequence[int] = (), total_s: float = 0.0) -> None:
        self.counts = list(counts) or [0] * _BUCKETS
        """How many durations are in each bucket: bucket n ends at 2**n microseconds."""
        self.total_s = total_s

    def add(self, seconds: float) -> None:
        self.counts[int(seconds * 1e6).bit_length()] += 1
        self.total_s += seconds

    def copy(self) -> "Histogram":
        return Histogram(self.counts, self.total_s)

    def since(self, earlier: "Histogram") -> "Histogram":
        """Returns what was added after the earlier copy was made."""
        counts = [now - before for now, before in zip(self.counts, earlier.counts, strict=True)]
        return Histogram(counts, self.total_s - earlier.total_s)

    def plus(self, other: "Histogram") -> "Histogram":
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Histogram(counts, self.total_s + other.total_s)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile_s(self, share: float) -> float | None:
        """Returns the duration that this share does not exceed, linear within a bucket; None without durations."""
        rank = share * self.count
        for number, count in enumerate(self.counts):
            if count and rank <= count:
                end_s = bound_s(number)
                return end_s / 2 * (1 + rank / count) if number else end_s * rank / count
            rank -= count
        return None


def bound_s(number: int) -> float:
    return float(1 << number) / 1e6


class EndedCall(Protocol):
    """What is counted of a `Call`."""

    method: str
    operator: str
    outcome: str
    start: float
    stage_since: float
    received_bytes: int
    sent_bytes: int
    stages_s: list[float]
    items: Mapping[OperatorAndReason, int]
    """The calls of a batch."""


class Failure(NamedTuple):
    """What failed calls have in common, without anything that a client chose."""

    operator: str
    method: str
    reason: str


class Row:
    """The RPCs of one method and operator."""

    __slots__ = ("durations", "operator", "reasons", "received_bytes", "sent_bytes")

    def __init__(self, operator: str) -> None:
        self.operator = operator
        """The name of the table, "unknown" or "none"."""
        self.reasons: dict[str, int] = {}
        self.durations = Histogram()
        self.received_bytes = self.sent_bytes = 0


class CallStatistics:
    """Counts since the start of the process. `OpenCalls` adds each RPC when its reply has left or its client went."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        """By method and operator."""
        self.stages = [Histogram() for _ in STAGES]
        """Of RPCs that succeeded, in the order of `STAGES`."""
        self.items: dict[OperatorAndReason, int] = {}
        """The calls in batches that were answered."""
        self.last_failures: dict[Failure, float] = {}
        """When calls failed last, as a time of `time.monotonic`."""

    def add(self, call: EndedCall) -> None:
        """Counts an RPC that has ended. It costs about 2 microseconds, so nothing here is done for its looks."""
        method, reason = call.method, call.outcome
        row = self.rows.get((method, call.operator)) or self._row(method, call.operator, reason)
        row.reasons[reason] = row.reasons.get(reason, 0) + 1
        row.received_bytes += call.received_bytes
        row.sent_bytes += call.sent_bytes
        seconds = call.stage_since - call.start
        row.durations.counts[int(seconds * 1e6).bit_length()] += 1
        row.durations.total_s += seconds
        if reason == OK:
            for histogram, seconds in zip(self.stages, call.stages_s, strict=True):
                histogram.counts[int(seconds * 1e6).bit_length()] += 1
                histogram.total_s += seconds
            if call.items:
                self._add_items(call.items)
        elif reason != CANCELLED:
            self.last_failures[Failure(row.operator, method, reason)] = time.monotonic()

    def calls(self) -> dict[tuple[str, str, str], int]:
        """Returns the number of operator calls that ended, by operator, method and reason.

        Each call of a batch counts; a batch that fails as a whole counts once.
        """
        found: Counter[tuple[str, str, str]] = Counter()
        for method, operator, reason, count in self._outcomes():
            if method in OPERATOR_METHODS and (method != BATCH or reason != OK):
                found[operator, method, reason] += count
        for (operator, reason), count in dict(self.items).items():
            found[operator, BATCH, reason] += count
        return dict(found)

    def rpcs(self) -> dict[tuple[str, str], int]:
        found: Counter[tuple[str, str]] = Counter()
        for method, _, reason, count in self._outcomes():
            found[method, reason] += count
        return dict(found)

    def failures(self) -> Counter[Failure]:
        """Returns the number of calls that failed; one that its client cancelled did not."""
        found: Counter[Failure] = Counter()
        for method, operator, reason, count in self._outcomes():
            if reason not in (OK, CANCELLED):
                found[Failure(operator, method, reason)] += count
        for (operator, reason), count in dict(self.items).items():
            if reason != OK:
                found[Failure(operator, BATCH, reason)] += count
        return found

    def _outcomes(self) -> Iterator[tuple[str, str, str, int]]:
        """Yields method, operator and reason of RPCs that ended, and how many."""
        for (method, operator), row in dict(self.rows).items():
            for reason, count in dict(row.reasons).items():
                yield method, operator, reason, count

    def _row(self, method: str, operator: str, reason: str) -> Row:
        """Returns the row of an operator that has none of this name: a new one, if the name is one of ours."""
        label = label_of(operator, reason)
        return self.rows.get((method, label)) or self.rows.setdefault((method, label), Row(label))

    def _add_items(self, items: Mapping[OperatorAndReason, int]) -> None:
        for (operator, reason), count in items.items():
            key = label_of(operator, reason), reason
            self.items[key] = self.items.get(key, 0) + count
            if reason != OK:
                self.last_failures[Failure(key[0], BATCH, reason)] = time.monotonic()


def label_of(operator: str, reason: str) -> str:
    """Returns what stands for the operator of a call: a name of the table, "unknown" or "none"."""
    if operator in OPERATORS:
        return operator
    return UNKNOWN if reason == _UNKNOWN_OPERATOR else NONE


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
    """Rates and latencies of the last minute, from copies of the counts that are made every few seconds."""

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
