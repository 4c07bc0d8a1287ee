"""What was measured and judged: as text for a terminal, and as a page with plots beside Locust's own reports."""

import base64
import html
import io
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
import psutil

from tools.load.judgement import Run, judge
from tools.load.recorder import Row

mpl.use("Agg")  # needs no screen

from matplotlib import pyplot as plt

HEADINGS: Final = (
    *("stage", "call", "at once", "calls/s", "MB/s", "p50 ms", "p99 ms", "CPU ms", "calls/core s", "peak MB"),
    *("threads", "generator", "load", "errors"),
)
STYLE: Final = """
body { font-family: sans-serif }
table { border-collapse: collapse; margin: 1em 0 }
td, th { border: 1px solid; padding: 2px 6px }
"""


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
    """Writes index.html, with everything in it, and report.md."""
    machine = f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"
    parts = [f"<h1>Load</h1><p>{machine}. Medians over the rounds; CPU, memory and threads are the server's.</p>"]
    for run in runs:
        name = run.scenario.name
        parts.append(f'<h2>{name}</h2><p>{html.escape(run.scenario.about)} <a href="{name}.html">Locust</a></p>')
        parts.append(_html_table(HEADINGS, rows(run)))
        judged = [(each.told, each.value, "kept" if each.passed else "MISSED") for each in judge(run)]
        parts.append(_html_table(("objective", "measured", ""), judged))
        parts.append(f'<img src="data:image/png;base64,{_plot(run)}">')
    page = f"<!doctype html><meta charset=utf-8><title>Load</title><style>{STYLE}</style>{''.join(parts)}"
    (folder / "index.html").write_text(page)
    sections = (f"## {run.scenario.name}\n\n{run.scenario.about}\n\n{text(run)}" for run in runs)
    (folder / "report.md").write_text(f"# Load\n\n{machine}\n\n" + "\n".join(sections))


def _median(mine: Sequence[Row], name: str) -> float:
    return statistics.median(getattr(row, name) for row in mine)


def _table(headings: Sequence[str], cells: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    yield from (f"| {' | '.join(row)} |" for row in cells)


def _html_table(headings: Sequence[str], cells: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    lines = [("th", headings), *(("td", row) for row in cells)]
    told = (f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in row)}</tr>" for tag, row in lines)
    return f"<table>{''.join(told)}</table>"


def _plot(run: Run) -> str:
    """Returns a PNG in base64: rates and latencies over the stages, memory and threads over time."""
    figure, (rates, latencies, memory) = plt.subplots(1, 3, figsize=(18, 5))
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
    for start, _ in run.timeline["stages"]:
        memory.axvline(start, alpha=0.2)
    memory.set(xlabel="s", ylim=(0, None))
    memory.legend(fontsize="small")
    figure.tight_layout()
    with io.BytesIO() as picture:
        figure.savefig(picture, format="png", dpi=80)
        plt.close(figure)
        return base64.b64encode(picture.getvalue()).decode()
