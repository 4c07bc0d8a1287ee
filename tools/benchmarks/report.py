"""What was measured, as Markdown, JSON and plots."""

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tools.benchmarks.copies import Copies
from tools.benchmarks.rates import Rate
from tools.benchmarks.rivals import FIGURES, PEAK_GB
from tools.benchmarks.runtime import RuntimeFigures
from tools.benchmarks.wire import ROWS, Plan, Result, budget_of

_ROWS = {row.load: row for row in ROWS}


@dataclass(slots=True)
class Report:
    """All parts of a run; those that were not asked for are empty."""

    plan: Plan
    results: list[Result] = field(default_factory=list)
    not_served: list[str] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)
    runtime: RuntimeFigures | None = None
    pool: str = ""

    def write(self, folder: Path) -> None:
        """Writes report.json, report.md and the plots."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(json.dumps(self._as_data(), indent=2))
        (folder / "report.md").write_text("\n".join(self.markdown()) + "\n")

    def _as_data(self) -> dict[str, Any]:
        return {
            "machine": _machine(),
            "plan": asdict(self.plan),
            "wire": [asdict(result) for result in self.results],
            "not_served": self.not_served,
            "copies": [asdict(each) for each in self.copies],
            "rates": [asdict(rate) for rate in self.rates],
            "runtime": asdict(self.runtime) if self.runtime else None,
            "pool": self.pool,
            "rivals": [asdict(figure) for figure in FIGURES],
        }

    def markdown(self, wire: bool = True) -> Iterator[str]:
        """Yields the lines of the report; `wire` has the lines that the run has already printed."""
        machine = ", ".join(f"{value} {name}" for name, value in _machine().items())
        yield f"# Benchmarks\n\nMedians of {self.plan.repeats} repeats on {machine}."
        if self.results and wire:
            yield "\n## On the wire\n\nGradients of one tensor each way; MB/s are both ways; CPU and memory are"
            yield "the server's. Each ratio is to the row of that name in the same repeat, with the promised least.\n"
            yield from _table(HEADINGS, map(_cells, self.results))
            yield from (f"\n{told}" for told in self.not_served)
        if self.rates:
            yield "\n## Unary calls/s that h2load counts\n\nRatios to the bare synchronous echo and to one that"
            yield "allocates and writes each reply, within each round; CPU time of the server.\n"
            headings = ("size", "at once", "server", "calls/s", "CPU us", "to echo", "to fresh echo")
            cells = ((each.size, str(each.at_once), each.server, *each.cells()) for each in self.rates)
            yield from _table(headings, cells)
        if self.results:
            yield "\n## Beside others\n\nRatios to a bare Python gRPC echo; the others' are of another day, see"
            yield "`tools/benchmarks/rivals.py`.\n"
            yield from _table(("server", "size", "at once", "calls/s", "ratio to echo"), self._beside_rivals())
            peaks = ", ".join(f"{server} {peak} GB" for server, peak in PEAK_GB.items())
            yield f"\nPeak memory at 100 MB, four at once, client and server together: {peaks}."
        if self.copies:
            yield "\n## Copies of a tensor in user space\n\nBytes that memcpy and memmove move, over the tensor's.\n"
            cells = ((each.server, each.size, f"{each.received:.2f}", f"{each.sent:.2f}") for each in self.copies)
            yield from _table(("server", "size", "received", "sent"), cells)
        if self.runtime:
            yield "\n## The runtime without gRPC\n"
            yield from _table(("what", "figure"), self.runtime.rows())
        if self.pool:
            yield f"\n## The memory pool\n\n```\n{self.pool.rstrip()}\n```"

    def _beside_rivals(self) -> Iterator[Sequence[str]]:
        ours = {(result.size.name, result.concurrency): result for result in self.results if result.row == "unary"}
        for load in dict.fromkeys((figure.size, figure.concurrency) for figure in FIGURES):
            size, concurrency = load
            if load in ours:
                result = ours[load]
                ratio = result.ratios.get("echo", float("nan"))
                yield "**aclgrad**", size, str(concurrency), f"{result.gradients_per_s:.1f}", f"{ratio:.2f}"
            for figure in FIGURES:
                if (figure.size, figure.concurrency) == load:
                    yield figure.server, size, str(concurrency), f"{figure.calls_per_s:g}", f"{figure.ratio:.2f}"


HEADINGS = (
    *("row", "size", "at once", "gradients/s", "MB/s", "median ms", "p99 ms", "CPU ms", "peak MB", "ratios"),
    "load average",
)


def _cells(result: Result) -> Sequence[str]:
    return (
        result.row,
        result.size.name,
        str(result.concurrency),
        f"{result.gradients_per_s:.1f}",
        f"{result.megabytes_per_s:.0f}",
        f"{result.median_ms:.2f}",
        f"{result.p99_ms:.2f}",
        f"{result.cpu_ms:.2f}",
        f"{result.peak_bytes / 1e6:.0f}",
        ", ".join(_ratio(result, other, ratio) for other, ratio in result.ratios.items()),
        f"{result.load_average:.1f}",
    )


def _ratio(result: Result, other: str, ratio: float) -> str:
    least = budget_of(_ROWS[result.row], other, result.size)
    promised = "" if least is None else f" (least {least})"
    return f"{ratio:.2f} {other}{promised}"


def line(result: Result) -> str:
    """Returns one result as a line for a terminal."""
    widths = (14, 7, 3, 9, 6, 9, 9, 8, 6)
    cells = _cells(result)
    return " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=False)) + f"  {cells[-2]}"


HEADING: Final = "           row    size at      grd/s   MB/s   med. ms    p99 ms   CPU ms peakMB  ratios"


def _table(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


def _machine() -> dict[str, Any]:
    return {
        "cores": psutil.cpu_count(),
        "GB": round(psutil.virtual_memory().total / 1e9),
        "Python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
    }
