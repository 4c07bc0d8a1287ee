"""What a run comes to: a row for each kind of fault, and totals."""

import math
from collections.abc import Iterable, Sequence

from rich.table import Table

from tools.lab.events import faults_of, operations_of
from tools.lab.history import Event


def table_of(events: Sequence[Event]) -> Table:
    """Returns the table; times are the longest of each kind, full service counts from the detection."""
    faults = faults_of(events)
    table = Table("fault")
    for title in ("count", "detected s", "full service s"):
        table.add_column(title, justify="right")
    for kind in sorted({fault.name for fault in faults}):
        these = [fault for fault in faults if fault.name == kind]
        detected = [fault.detected - fault.begin for fault in these if fault.detected is not None]
        recovered = [fault.recovery_s for fault in these if fault.recovery_s is not None]
        table.add_row(kind, str(len(these)), _longest(detected), _longest(recovered))
    return table


def totals_of(events: Sequence[Event]) -> str:
    operations, _ = operations_of(events)
    outcomes = [each.outcome for each in operations.values()]
    retries = sum(each.retries for each in operations.values())
    return (
        f"{len(outcomes)} operations, {outcomes.count('wrong')} wrong, {outcomes.count('error')} errors "
        f"(of those that are promised nothing, if there is no violation); {retries} retries"
    )


def slowest_of(events: Sequence[Event]) -> float:
    """Returns how many times slower than a quiet machine this one was at worst."""
    return max((fault.slowness for fault in faults_of(events)), default=1.0)


def _longest(values: Iterable[float]) -> str:
    longest = max(values, default=None)
    return "-" if longest is None else "never" if longest == math.inf else f"{longest:.1f}"
