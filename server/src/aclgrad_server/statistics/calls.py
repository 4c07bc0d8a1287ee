"""Counts calls by method, operator and reason, with their durations, bytes and stages, and when each failed last."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from aclgrad.operators.catalogue import OPERATORS
from aclgrad_server.statistics.histogram import Histogram

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

OperatorAndReason = tuple[str, str]


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
        for (method, operator), row in dict(self.rows).items():
            if method in OPERATOR_METHODS:
                for reason, count in dict(row.reasons).items():
                    if method != BATCH or reason != OK:
                        found[operator, method, reason] += count
        for (operator, reason), count in dict(self.items).items():
            found[operator, BATCH, reason] += count
        return dict(found)

    def rpcs(self) -> dict[tuple[str, str], int]:
        """Returns the number of RPCs that ended, by method and reason."""
        found: Counter[tuple[str, str]] = Counter()
        for (method, _), row in dict(self.rows).items():
            for reason, count in dict(row.reasons).items():
                found[method, reason] += count
        return dict(found)

    def failures(self) -> Counter[Failure]:
        """Returns the number of calls that failed; one that its client cancelled did not."""
        found: Counter[Failure] = Counter()
        for (method, operator), row in dict(self.rows).items():
            for reason, count in dict(row.reasons).items():
                if reason not in (OK, CANCELLED):
                    found[Failure(operator, method, reason)] += count
        for (operator, reason), count in dict(self.items).items():
            if reason != OK:
                found[Failure(operator, BATCH, reason)] += count
        return found

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
