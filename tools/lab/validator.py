"""The one judge of a history: which promises were broken, the first violation first.

P1 every gradient is right.
P2 every operation ends once, by its deadline and a second, with a gradient or a typed error.
P3 with a healthy sibling and a deadline of 10 s nothing fails, unless its bytes took longer than was left to send them
again. A program is repeated whole, and is silent while none of its chunks moves.
P4 from detection to full service less than 5 s pass, beside the supervisor's pause for a worker that ends repeatedly.
P5 retries add at most a tenth of the calls of a minute, beyond 100 or the calls in flight. A program is one call.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.lab.events import Fault, Operation, by_client, faults_of, lags_of, operations_of
from tools.lab.history import Event

LATE_S = 1.0
PROMISED_DEADLINE_S = 10.0
FULL_SERVICE_S = 5.0
WINDOW_S = 60.0
TOO_LATE = "it is not sent again: its bytes took"
"""What an error says if less time was left than the bytes had taken, so less than half."""
RETRY_SHARE = 0.1
RETRY_BURST = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, when, and by which operations or fault."""

    promise: str
    time: float
    text: str
    operations: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n  ".join([f"{self.promise} {self.text}", *self.operations])


def judge(events: Sequence[Event]) -> list[Violation]:
    """Returns the violations in the order of time."""
    operations, strays = operations_of(events)
    faults = faults_of(events)
    if not operations:
        return [Violation("P2", 0.0, "the history has no operation, so it proves nothing")]
    found = [
        *_wrong(operations.values()),
        *_stray(strays),
        *_badly_ended(operations.values(), events),
        *_lost(operations.values(), faults),
        *_slow(faults),
        *_storms(operations.values()),
    ]
    return sorted(found, key=lambda each: each.time)


def is_promised(operation: Operation, faults: Iterable[Fault]) -> bool:
    """Whether the operation may not fail: one of several servers had no fault for as long as it ran."""
    if operation.deadline_s < PROMISED_DEADLINE_S or len(operation.servers) < 2:
        return False
    hit: set[str] = set()
    of_some = 0
    for fault in faults:
        if fault.overlaps(operation) and (taken := fault.takes(operation.servers)):
            if fault.at_once < len(taken):
                of_some += fault.at_once
            else:
                hit |= taken
    return len(operation.servers) - len(hit) - of_some >= 1


def lost_of(operations: Iterable[Operation], faults: Sequence[Fault]) -> Iterator[Operation]:
    """Yields the operations that failed although a healthy sibling could have answered."""
    failed = (each for each in operations if each.outcome == "error" and not _was_too_late(each))
    return (each for each in failed if is_promised(each, faults))


def _was_too_late(operation: Operation) -> bool:
    is_half_over = operation.end - operation.begin >= operation.deadline_s / 2
    return is_half_over and TOO_LATE in operation.ends[0].get("text", "")


def _wrong(operations: Iterable[Operation]) -> Iterator[Violation]:
    for each in operations:
        if any(end["outcome"] == "wrong" for end in each.ends):
            yield Violation("P1", each.end, "a gradient is wrong", (str(each),))


def _stray(ends: Iterable[Event]) -> Iterator[Violation]:
    for end in ends:
        yield Violation("P2", end["time"], "an operation ended that never began", (end["operation"],))


def _badly_ended(operations: Iterable[Operation], events: Sequence[Event]) -> Iterator[Violation]:
    lags = lags_of(events)
    last = max((event["time"] for event in events), default=0.0)
    for each in operations:
        if not each.ends:
            yield Violation("P2", last, "an operation has no end", (str(each),))
            continue
        if len(each.ends) > 1:
            yield Violation("P2", each.ends[1]["time"], f"an operation ended {len(each.ends)} times", (str(each),))
        end = each.ends[0]
        if end["outcome"] == "error" and not end["is_typed"]:
            yield Violation("P2", each.end, "an error has no type of aclgrad", (str(each),))
        # Half a second during which nothing ran in the process delays what it measures as much.
        lag_s = sum(seconds for time, seconds in lags.get(each.process, ()) if each.begin <= time <= each.end + seconds)
        over_s = each.end - each.begin - each.deadline_s - LATE_S - lag_s
        if over_s > 0:
            yield Violation("P2", each.end, f"an operation ended {LATE_S + over_s:.2f} s too late", (str(each),))


def _lost(operations: Iterable[Operation], faults: Sequence[Fault]) -> Iterator[Violation]:
    for each in lost_of(operations, faults):
        at_work = ", ".join(str(fault) for fault in faults if fault.overlaps(each)) or "no fault"
        yield Violation("P3", each.end, f"an operation with a healthy sibling failed, during {at_work}", (str(each),))


def _slow(faults: Iterable[Fault]) -> Iterator[Violation]:
    for fault in faults:
        if fault.whole == math.inf:
            yield Violation("P4", fault.detected or fault.begin, f"{fault}: full service never came back")
        elif fault.recovery_s is not None:
            limit_s = FULL_SERVICE_S * max(1.0, fault.slowness) + fault.pause_s
            if fault.recovery_s > limit_s:
                text = f"{fault}: full service {fault.recovery_s:.1f} s after detection, allowed {limit_s:.1f} s"
                yield Violation("P4", fault.whole, text)


def _storms(operations: Iterable[Operation]) -> Iterator[Violation]:
    """Yields the first window of each client with more retries than it may make."""
    for client, ended in by_client(operations):
        burst = max(RETRY_BURST, _most_in_flight(ended))
        window: deque[Operation] = deque()
        retries = 0
        for each in ended:
            window.append(each)
            retries += each.retries
            while window[0].end < each.end - WINDOW_S:
                retries -= window.popleft().retries
            if retries > burst + RETRY_SHARE * len(window):
                text = f"{client} made {retries} retries of {len(window)} operations within {WINDOW_S:.0f} s"
                worst = sorted(window, key=lambda one: -one.retries)[:5]
                yield Violation("P5", each.end, text, tuple(map(str, worst)))
                break


def _most_in_flight(operations: Iterable[Operation]) -> int:
    # At the same moment, an end goes before a begin.
    steps = sorted([(each.begin, 1) for each in operations] + [(each.end, -1) for each in operations])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most
