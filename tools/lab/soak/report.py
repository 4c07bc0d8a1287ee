"""What was sampled and judged: a table for a terminal."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from tools.lab.growth import LIMITS, SETTLED_S, Verdict

EXPLANATION = (
    "slope: Theil-Sen's, within the lives of the processes of one kind; rise: that slope over the longest life.\n"
    "A figure grows if both are above their limits."
)


def table(verdicts: Sequence[Verdict]) -> Table:
    """Returns a row for each figure of each kind of process."""
    titles = ("process", "figure", "lives", "samples", "median", "slope per hour", "limit", "rise", "limit", "")
    found = Table(*titles)
    for column in found.columns[2:9]:
        column.justify = "right"
    before = ""
    for each in sorted(verdicts, key=lambda each: each.subject):
        found.add_row(each.subject if each.subject != before else "", each.figure, *_cells(each))
        before = each.subject
    return found


def _cells(verdict: Verdict) -> Iterator[str]:
    limit = LIMITS[verdict.figure]
    times, unit = (100, " %") if limit.is_relative else (1, f" {limit.unit}".rstrip())
    yield str(verdict.lives)
    yield str(verdict.samples)
    if math.isnan(verdict.median):
        yield from ("", "", "", "", "", "NOT MEASURED" if verdict.problem else "too short")
        return
    yield f"{verdict.median:.1f}{' ms' if limit.is_relative else unit}"
    yield f"{times * verdict.per_hour:+.1f}{unit}"
    yield f"{times * limit.per_hour:g}"
    yield f"{times * verdict.rise:+.1f}{unit}"
    yield f"{times * verdict.most_rise:g}"
    yield "GROWS" if verdict.problem else ""


def lines(warm_up_s: float, ends: Counter[str]) -> Iterator[str]:
    """Yields what belongs below the table."""
    yield EXPLANATION
    if warm_up_s < SETTLED_S:
        yield f"Limits of the rise are wide: {warm_up_s:g} s of warm-up do not fill heaps and pools."
    yield f"{ends.total()} calls: {dict(sorted(ends.items()))}"
