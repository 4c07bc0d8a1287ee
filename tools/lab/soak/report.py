"""What was sampled and judged: a table for a terminal, and the samples as a plot and a file."""

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Table

from tools.lab.growth import LIMITS, SETTLED_S, Sample, Verdict

COLUMNS = 3
"""Of panels in the plot."""
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


def write_samples(samples: Sequence[Sample], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(each.name for each in fields(Sample))
        writer.writerows(astuple(each) for each in samples)


def draw(samples: Sequence[Sample], restarts: Sequence[tuple[float, str]], path: Path) -> None:
    """Writes a panel for each figure, with a line for each process and a mark for each restart."""
    names = list(dict.fromkeys(each.figure for each in samples))
    rows = max(1, -(-len(names) // COLUMNS))
    figure = Figure(figsize=(6 * COLUMNS, 4 * rows))
    grid = figure.subplots(rows, COLUMNS, squeeze=False)
    subjects = list(dict.fromkeys(each.subject for each in samples))
    for axes, name in zip(grid.flat, names, strict=False):
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for each in samples:
            if each.figure == name:
                lines.setdefault((each.subject, each.life), []).append((each.seconds / 60, each.value))
        named = set()
        for (subject, _), points in lines.items():
            label = None if subject in named else subject
            named.add(subject)
            colour = f"C{subjects.index(subject)}"
            axes.plot(*zip(*points, strict=True), ".-", markersize=3, linewidth=1, color=colour, label=label)
        for seconds, _ in restarts:
            axes.axvline(seconds / 60, color="grey", alpha=0.4)
        unit = {"p50": "ms, small calls", "p99": "ms, small calls"}.get(name, LIMITS[name].unit or "count")
        axes.set(title=name, xlabel="minutes", ylabel=unit, ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    for axes in list(grid.flat)[len(names) :]:
        axes.remove()
    figure.tight_layout()
    figure.savefig(path, dpi=90)
