"""What was measured and judged: as text, and as a file with a plot of each run."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil
from matplotlib.figure import Figure

from tools.lab.load.figures import Row
from tools.lab.load.objectives import Run, judge

HEADINGS: Final = (
    *("stage", "call", "at once", "calls/s", "MB/s", "p50 ms", "p99 ms", "CPU ms", "calls/core s", "peak MB"),
    *("threads", "generator", "load", "errors"),
)


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


def text(run: Run) -> str:
    """Returns the tables of one run as Markdown."""
    judged = ((each.told, each.value, "kept" if each.passed else "MISSED") for each in judge(run))
    return "\n".join((*_table(HEADINGS, rows(run)), "", *_table(("objective", "measured", ""), judged), ""))


def write(folder: Path, runs: Sequence[Run]) -> None:
    """Writes report.md, and the plots that it shows."""
    machine = f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"
    parts = [f"# Load\n\n{machine}. Medians over the rounds; CPU, memory and threads are the server's.\n"]
    for run in runs:
        name = run.scenario.name
        _plot(run, folder / f"{name}.png")
        parts.append(f"## {name}\n\n{run.scenario.about}\n\n{text(run)}\n![{name}]({name}.png)\n")
    (folder / "report.md").write_text("\n".join(parts))


def _median(mine: Sequence[Row], name: str) -> float:
    return statistics.median(getattr(row, name) for row in mine)


def _table(headings: Sequence[str], cells: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    yield from (f"| {' | '.join(row)} |" for row in cells)


def _plot(run: Run, path: Path) -> None:
    """Draws rates and latencies over the stages, memory and threads over time."""
    figure = Figure(figsize=(18, 5))
    rates, latencies, memory = figure.subplots(1, 3)
    stages = list(dict.fromkeys(row.stage for row in run.rows))
    for call in dict.fromkeys(row.call for row in run.rows):
        own = [stage for stage in stages if run.figure("calls_per_s", stage, call)]
        at = [stages.index(stage) for stage in own]
        rates.plot(at, [statistics.median(run.figure("calls_per_s", stage, call)) for stage in own], "o-", label=call)
        latencies.plot(at, [statistics.median(run.figure("p99_ms", stage, call)) for stage in own], "o-", label=call)
    for axes, label in ((rates, "calls/s"), (latencies, "p99, ms")):
        axes.set(ylabel=label, yscale="log")
        axes.set_xticks(range(len(stages)), stages, rotation=60, ha="right", fontsize="small")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    seconds = run.timeline["seconds"]
    memory.plot(seconds, run.timeline["server_mb"], label="server, MB")
    memory.plot(seconds, run.timeline["threads"], label="server, threads")
    for start in run.timeline["stages"]:
        memory.axvline(start, alpha=0.2)
    memory.set(xlabel="s", ylim=(0, None))
    memory.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=80)
