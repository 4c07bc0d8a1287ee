"""What was measured and judged: as text, and as a page that begins with what may be promised."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aclgrad.commands.bench_report import PAGE, place_of_generator
from aclgrad.commands.load_page import KEPT, MISSED, Grid, Section, curves, facts, render
from aclgrad.commands.promise import Search
from aclgrad.units import counted
from tools.benchmarks.report import commit
from tools.lab.load.figures import Row
from tools.lab.load.objectives import Run, judge

HEADINGS: Final = (
    *("stage", "call", "at once", "calls/s", "MB/s", "p50 ms", "p99 ms", "CPU ms", "calls/core s", "peak MB"),
    *("threads", "generator", "load", "errors"),
)
COLUMNS: Final = {
    "stage, call, at once": "So many callers made this call in this stage, each without pauses. An echo is a bare gRPC "
    "server that returns as many bytes.",
    "CPU ms, calls/core s": "CPU time of the server for a call, and how many calls a core of it makes in a second.",
    "peak MB, threads": "The most memory and threads that the server had.",
    "load": "The load average of the machine. Above the number of its cores, programs waited for each other.",
    "errors": "Calls that failed, by reason. SERVER_BUSY is what a server says whose queue is full.",
}
RAMP: Final = 3
"""A call with so many different numbers of callers has charts."""


def rows(run: Run) -> Iterator[Sequence[str]]:
    """Yields the medians over the rounds of each call in each stage."""
    for stage, call in dict.fromkeys((row.stage, row.call) for row in run.rows):
        mine = [row for row in run.rows if (row.stage, row.call) == (stage, call)]
        errors: dict[str, int] = {}
        for row in mine:
            for name, count in row.errors.items():
                errors[name] = errors.get(name, 0) + count
        yield (
            *(stage, call, str(mine[0].callers)),
            *(f"{_median(mine, 'calls_per_s'):.1f}", f"{_median(mine, 'mb_per_s'):.0f}"),
            *(f"{_median(mine, 'p50_ms'):.1f}", f"{_median(mine, 'p99_ms'):.1f}", f"{_median(mine, 'cpu_ms'):.2f}"),
            *(f"{_median(mine, 'calls_per_core_s'):.0f}", f"{max(row.peak_mb for row in mine):.0f}"),
            *(str(max(row.threads for row in mine)), f"{_median(mine, 'generator_cores'):.2f}"),
            f"{_median(mine, 'load_average'):.1f}",
            ", ".join(f"{count} {name}" for name, count in sorted(errors.items())),
        )


def judged(run: Run) -> Iterator[Sequence[str]]:
    return ((each.told, each.value, KEPT if each.passed else MISSED) for each in judge(run))


def text(run: Run) -> str:
    """Returns the tables of one run as Markdown."""
    return "\n".join((*_table(HEADINGS, rows(run)), "", *_table(("objective", "measured", ""), judged(run)), ""))


def write(folder: Path, address: str, searches: Sequence[Search], runs: Sequence[Run], early: str) -> None:
    """Writes the page; `address` is that of the server whose rates were searched, `early` why the run ended early."""
    served = "aclgrad_server on the host library, which computes on the CPU"
    about = facts(address, served, commit(), beside=place_of_generator(address))
    page = render("make load", searches, about, map(section, runs), COLUMNS, early=early)
    (folder / PAGE).write_text(page, encoding="utf-8")


def section(run: Run) -> Section:
    about = f"{run.scenario.about} Figures are medians of {counted(run.scenario.rounds, 'round')}."
    tables = Grid(("objective", "measured", "result"), list(judged(run))), Grid(HEADINGS, list(rows(run)))
    return Section(run.scenario.name, about, tables, list(charts(run)))


def charts(run: Run) -> Iterator[str]:
    """Yields rates and latencies by the number of callers, if the scenario has a ramp."""
    by_call: dict[str, dict[int, list[Row]]] = {}
    for row in run.rows:
        if row.calls:
            by_call.setdefault(row.call, {}).setdefault(row.callers, []).append(row)
    ramps = {call: rows for call, rows in by_call.items() if len(rows) >= RAMP}
    for name, up in (("calls_per_s", "calls/s"), ("p99_ms", "p99, ms")) if ramps else ():
        series = {call: [(at, _median(own, name)) for at, own in rows.items()] for call, rows in ramps.items()}
        yield curves(f"{run.scenario.name}: {up}", "callers at once", up, series)


def _median(mine: Sequence[Row], name: str) -> float:
    return statistics.median(getattr(row, name) for row in mine)


def _table(headings: Sequence[str], cells: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    yield from (f"| {' | '.join(row)} |" for row in cells)
