"""The table at the end, as text and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tools.hostile.judgement import HEALTH, Verdict

COLUMNS: Final = (
    *("attack", "sent", "call p50/p99/max ms", "health p99/max", "check p99", "chunked p99"),
    *("+MB", "kept", "+files", "kept", "+threads", "kept", "loop ms", "load"),
)
WIDTHS: Final = (20, 20, 22, 16, 10, 12, 5, 5, 7, 5, 9, 5, 8, 5)

SENT: Final = ("resets_per_s", "frames", "calls", "stopped", "connected")
"""What an attacker counts, the most telling first."""


def head() -> str:
    return _line((*COLUMNS, "verdict"))


def line(verdict: Verdict) -> str:
    return _line(tuple(_cells(verdict)))


def _line(cells: Sequence[str]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=False)]
    return " ".join((*padded, cells[-1]))


def _cells(verdict: Verdict) -> Iterator[str]:
    yield verdict.name
    yield next((f"{verdict.reached[name]} {name}" for name in SENT if name in verdict.reached), "-")
    figures = verdict.figures
    if not figures:
        yield from ("-",) * 4
    else:
        call, health = figures["call"], [figures[name] for name in HEALTH]
        yield f"{call.p50_ms:.1f} / {call.p99_ms:.0f} / {call.max_ms:.0f}"
        yield f"{max(each.p99_ms for each in health):.0f} / {max(each.max_ms for each in health):.0f}"
        yield from (f"{figures[name].p99_ms:.0f}" for name in ("check", "chunked"))
    grown, kept = verdict.grown, verdict.kept
    yield from (f"{grown.mb:.0f}", f"{kept.mb:.0f}", f"{grown.files}", f"{kept.files}", f"{grown.threads}")
    yield from (f"{kept.threads}", f"{verdict.loop_ms:.0f}", f"{verdict.load:.1f}")
    yield "withstood" if verdict.withstood else "; ".join(verdict.problems)


def write(folder: Path, verdicts: Sequence[Verdict]) -> None:
    """Writes report.json with everything, and the table as report.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(verdict) | {"withstood": verdict.withstood} for verdict in verdicts]
    (folder / "report.json").write_text(json.dumps(rows, indent=1))
    (folder / "report.txt").write_text("\n".join((head(), *map(line, verdicts), "")))
