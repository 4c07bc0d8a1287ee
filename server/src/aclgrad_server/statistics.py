"""The server's counts of its calls. Only the main loop writes, and any thread reads without locks."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import add, sub
from typing import Final, NamedTuple, Protocol

from aclgrad.operators.catalogue import OPERATORS

OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
UNKNOWN: Final = "unknown"
"""The label of operators that the server does not know: text of clients never becomes a label."""
NONE: Final = "none"
"""The label of calls without an operator, or that ended before it was known."""
PROGRAM_METHODS: Final = ("ExecuteProgram", "ExecuteProgramChunked")
OPERATOR_METHODS: Final = ("ExecuteOperator", *PROGRAM_METHODS)
_UNKNOWN_OPERATOR: Final = "UNKNOWN_OPERATOR"

STAGES: Final = ("receive", "plan", "wait", "run", "reply")
"""The stages of a call: it waits for its message, its plan, admission, the device, and its reply to leave."""
RECEIVE, PLAN, WAIT, RUN, REPLY = range(len(STAGES))

_BUCKETS: Final = 64  # more than the bits of any duration
INTERVAL_S: Final = 5.0
WINDOW_S: Final = 60.0

OperatorAndReason = tuple[str, str]


@dataclass(slots=True)
class Histogram:
    """Durations or sizes: one thread adds, any thread reads."""

    counts: list[int] = field(default_factory=lambda: [0] * _BUCKETS)
    """The count of each bucket: bucket n ends at 2**n microseconds, or at a size of 2**n."""
    total: float = 0.0
    has_sizes: bool = False

    def add(self, seconds: float) -> None:
        self.counts[int(seconds * 1e6).bit_length()] += 1
        self.total += seconds

    def add_size(self, size: int) -> None:
        self.counts[(size - 1).bit_length()] += 1
        self.total += size

    def copy(self) -> "Histogram":
        return Histogram(self.counts.copy(), self.total, self.has_sizes)

    def since(self, earlier: "Histogram") -> "Histogram":
        """Returns the difference from an earlier copy."""
        return Histogram(list(map(sub, self.counts, earlier.counts)), self.total - earlier.total)

    def plus(self, other: "Histogram") -> "Histogram":
        return Histogram(list(map(add, self.counts, other.counts)), self.total + other.total)

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
    """The counted attributes of a `Call`."""

    method: str
    operator: str
    outcome: str
    start: float
    stage_since: float
    received_bytes: int
    sent_bytes: int
    stages_s: list[float]
    items: Mapping[OperatorAndReason, int]
    """The steps of a program."""
    step_count: int
    work_s: float


class Outcome(NamedTuple):
    """The key of ended calls, without text of clients."""

    operator: str
    """A name of the table, "unknown" or "none"."""
    method: str
    reason: str


@dataclass(slots=True)
class Row:
    """The RPCs of one method and operator."""

    reasons: dict[str, int] = field(default_factory=dict)
    durations: Histogram = field(default_factory=Histogram)
    received_bytes: int = 0
    sent_bytes: int = 0


class CallStatistics:
    """Counts since the start of the process. `OpenCalls` adds each RPC when its reply has left or its client went."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        """By method and operator."""
        self.stages = [Histogram() for _ in STAGES]
        """Of RPCs that succeeded, in the order of `STAGES`."""
        self.items: dict[Outcome, int] = {}
        """The steps of answered programs."""
        self.program_steps = Histogram(has_sizes=True)
        """The number of steps of each answered program."""
        self.program_work = Histogram()
        """The estimated device time of each answered program."""
        self.last_failures: dict[Outcome, float] = {}
        """When calls failed last, by `time.monotonic`."""

    def add(self, call: EndedCall) -> None:
        """Counts an ended RPC in about 2 microseconds: it is written for speed."""
        method, reason = call.method, call.outcome
        label = label_of(call.operator, reason)
        row = self.rows.get((method, label)) or self.rows.setdefault((method, label), Row())
        row.reasons[reason] = row.reasons.get(reason, 0) + 1
        row.received_bytes += call.received_bytes
        row.sent_bytes += call.sent_bytes
        seconds = call.stage_since - call.start
        row.durations.counts[int(seconds * 1e6).bit_length()] += 1
        row.durations.total += seconds
        if reason == OK:
            for histogram, seconds in zip(self.stages, call.stages_s, strict=True):
                histogram.counts[int(seconds * 1e6).bit_length()] += 1
                histogram.total += seconds
            if call.items:
                self._add_items(method, call.items)
                self.program_steps.add_size(call.step_count)
                self.program_work.add(call.work_s)
        elif reason != CANCELLED:
            self.last_failures[Outcome(label, method, reason)] = time.monotonic()

    def outcomes(self) -> Counter[Outcome]:
        """Returns how many RPCs ended so; each step of an answered program counts instead."""
        found = Counter(dict(self.items))
        for (method, operator), row in dict(self.rows).items():
            for reason, count in dict(row.reasons).items():
                if method not in PROGRAM_METHODS or reason != OK:
                    found[Outcome(operator, method, reason)] += count
        return found

    def calls(self) -> dict[Outcome, int]:
        """Returns how many operator calls ended so; a program that failed as a whole counts once."""
        return {each: count for each, count in self.outcomes().items() if each.method in OPERATOR_METHODS}

    def rpcs(self) -> Counter[tuple[str, str]]:
        """Returns how many RPCs ended, by method and reason."""
        found: Counter[tuple[str, str]] = Counter()
        for (method, _), row in dict(self.rows).items():
            found.update({(method, reason): count for reason, count in dict(row.reasons).items()})
        return found

    def _add_items(self, method: str, items: Mapping[OperatorAndReason, int]) -> None:
        for (operator, reason), count in items.items():
            key = Outcome(label_of(operator, reason), method, reason)
            self.items[key] = self.items.get(key, 0) + count
            if reason != OK:
                self.last_failures[key] = time.monotonic()


def label_of(operator: str, reason: str) -> str:
    """Returns the label for the operator of a call: a name of the table, "unknown" or "none"."""
    if operator in OPERATORS:
        return operator
    return UNKNOWN if reason == _UNKNOWN_OPERATOR else NONE


@dataclass(frozen=True, slots=True)
class _Copy:
    time_s: float
    outcomes: Counter[Outcome]
    durations: dict[str, Histogram]
    programs: Histogram
    """Durations of programs."""
    loop_lag: Histogram


class RecentCalls:
    """Rates and latencies of the last minute, from copies of the counts every few seconds.

    Any thread may ask for them.
    """

    def __init__(
        self, statistics: CallStatistics, loop_lag: Histogram, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._statistics = statistics
        self._loop_lag = loop_lag
        self._clock = clock
        self._copies = deque([self._copy()], maxlen=round(WINDOW_S / INTERVAL_S) + 1)

    def sweep(self) -> None:
        """Makes a copy if one is due. Call it several times a second."""
        if self._clock() - self._copies[-1].time_s >= INTERVAL_S:
            self._copies.append(self._copy())

    def by_operator(self) -> dict[str, tuple[float, Histogram]]:
        """Returns calls a second and durations of RPCs of operators with calls in the window; "none" has programs."""
        now, before = self._copy(), self._before()
        seconds, nothing = max(now.time_s - before.time_s, 1e-3), Histogram()
        counts: Counter[str] = Counter()
        for (operator, method, _), count in (now.outcomes - before.outcomes).items():
            if method in OPERATOR_METHODS:
                counts[operator] += count
        found = {}
        for operator, count in counts.items():
            durations = now.durations.get(operator, nothing).since(before.durations.get(operator, nothing))
            found[operator] = count / seconds, durations
        return found

    def programs(self) -> tuple[float, Histogram]:
        """Returns programs a second, and their durations."""
        now, before = self._copy(), self._before()
        found = now.programs.since(before.programs)
        return found.count / max(now.time_s - before.time_s, 1e-3), found

    def outcomes(self) -> Counter[Outcome]:
        """Returns how many calls ended so within the window."""
        return self._statistics.outcomes() - self._before().outcomes

    def loop_lag(self) -> Histogram:
        """Returns the delays of the beats within the window."""
        return self._loop_lag.since(self._before().loop_lag)

    def _before(self) -> _Copy:
        """Returns the copy at the beginning of the window."""
        now_s, copies = self._clock(), tuple(self._copies)
        # A hung main loop has made no copies, so the oldest may be older.
        return next((each for each in copies if now_s - each.time_s <= WINDOW_S + INTERVAL_S), copies[-1])

    def _copy(self) -> _Copy:
        durations: dict[str, Histogram] = {}
        programs = Histogram()
        for (method, operator), row in dict(self._statistics.rows).items():
            if method in OPERATOR_METHODS:
                durations[operator] = row.durations.plus(durations.get(operator, Histogram()))
            if method in PROGRAM_METHODS:
                programs = programs.plus(row.durations)
        return _Copy(self._clock(), self._statistics.outcomes(), durations, programs, self._loop_lag.copy())
