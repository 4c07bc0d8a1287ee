"""What a run comes to, as a table: a row for each kind of fault."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from tools.lab.events import Fault, Operation, by_client, faults_of, operations_of
from tools.lab.history import Event
from tools.lab.validator import lost_of

TITLES = ("fault", "count", "detected s", "full service s", "lost", "not promised", "wrong", "longest pause s")


def table_of(events: Sequence[Event]) -> Table:
    """Returns the table; times are the longest of each kind, full service counts from the detection."""
    operations, _ = operations_of(events)
    faults = faults_of(events)
    lost = {each.name for each in lost_of(operations.values(), faults)}
    causes = {each.name: cause_of(each, faults) for each in operations.values()}
    pauses = list(_pauses(operations.values()))
    table = Table(TITLES[0])
    for title in TITLES[1:]:
        table.add_column(title, justify="right")
    for kind in sorted({fault.name for fault in faults}):
        these = [fault for fault in faults if fault.name == kind]
        met = [each for each in operations.values() if causes[each.name] in these]
        failed = [each for each in met if each.outcome == "error"]
        of_lost = sum(each.name in lost for each in failed)
        counts = of_lost, len(failed) - of_lost, sum(each.outcome == "wrong" for each in met)
        detected = [fault.detected - fault.begin for fault in these if fault.detected is not None]
        recovered = [fault.recovery_s for fault in these if fault.recovery_s is not None]
        longest = _longest(each.end - begin for begin, each in pauses if causes[each.name] in these)
        times = _longest(detected), _longest(recovered)
        table.add_row(kind, str(len(these)), *times, *map(str, counts), longest)
    return table


def totals_of(events: Sequence[Event]) -> str:
    operations, _ = operations_of(events)
    count = len(operations)
    retries = sum(each.retries for each in operations.values())
    errors = sum(each.outcome == "error" for each in operations.values())
    share = retries / count if count else 0.0
    wrong = sum(each.outcome == "wrong" for each in operations.values())
    return f"{count} operations, {wrong} wrong, {errors} errors; {retries} retries, {share:.2%} of the operations"


def slowest_of(events: Sequence[Event]) -> float:
    """Returns how many times slower than a quiet machine this one was at worst."""
    return max((fault.slowness for fault in faults_of(events)), default=1.0)


def cause_of(operation: Operation, faults: Iterable[Fault]) -> Fault | None:
    """Returns the first fault during the operation, of those that hit one of its servers if there are such."""
    met = [fault for fault in faults if fault.overlaps(operation)]
    return next((fault for fault in met if fault.takes(operation.servers)), met[0] if met else None)


def _pauses(operations: Iterable[Operation]) -> Iterator[tuple[float, Operation]]:
    """Yields the gradients of each client that has several servers, and when it got the one before."""
    for _, ended in by_client(each for each in operations if len(each.servers) > 1 and each.outcome == "right"):
        yield from ((before.end, after) for before, after in itertools.pairwise(ended))


def _longest(values: Iterable[float]) -> str:
    longest = max(values, default=None)
    return "-" if longest is None else "never" if longest == math.inf else f"{longest:.1f}"
