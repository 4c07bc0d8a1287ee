"""The output of a run, during it and at its end: a bar and tables on a terminal, plain lines elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from aclgrad.check.report import Report
from aclgrad.check.rows import Row, Verdict

_STYLES = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.NOTED: "yellow", Verdict.SKIPPED: "dim"}


class Display:
    """Shows rows as they arrive."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None

    @contextmanager
    def of(self, planned: int) -> Iterator[None]:
        """Shows a bar within the block, if there is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=self._console, transient=True) as self._progress:
            self._bar = self._progress.add_task("", total=planned)
            yield
        self._progress = None

    def take(self, row: Row) -> None:
        """Shows one row; while a bar is shown, only one that did not pass."""
        if self._progress is not None:
            self._progress.update(self._bar, advance=1, description=escape(f"{row.check} {row.operator}"))
            if row.verdict is Verdict.PASSED:
                return
        style = _STYLES[row.verdict]
        self._console.print(f"[{style}]{row.verdict:8}[/] {escape(line_of(row))}", soft_wrap=True, highlight=False)

    def end(self, report: Report) -> None:
        """Shows the table of checks and operators, the switches and how the run ended."""
        if self._console.is_terminal:
            self._console.print(_table(report.rows))
        for finding in report.switches:
            text = f"{finding.switch}: {finding.verdict} ({finding.why})"
            self._console.print(escape(text), soft_wrap=True, highlight=False)
        counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
        ending = f"{report.end}: {counts}; {len(report.rows)} of {report.planned} rows in {report.seconds:.1f} s"
        self._console.print(escape(ending), soft_wrap=True, highlight=False)


def line_of(row: Row) -> str:
    """Returns the text of a row, without its verdict."""
    shape = "x".join(map(str, row.shape))
    told = " ".join(part for part in (row.check, row.operator, row.dtype, shape, row.case) if part)
    figures = ", ".join(figures_of(row))
    return "; ".join(part for part in (told, figures, row.message) if part)


def figures_of(row: Row) -> Iterator[str]:
    """Yields the most important figures."""
    if row.figures.get("error_of_limit") is not None:
        yield f"error {row.figures['max_error']:.2g}, {row.figures['error_of_limit']:.1%} of the limit"
    if row.figures.get("p50_ms") is not None:
        yield f"p50 {row.figures['p50_ms']:.2f} ms, p99 {row.figures['p99_ms']:.2f} ms"


def _table(rows: Sequence[Row]) -> Table:
    several = len({row.origin for row in rows}) > 1
    table = Table()
    for heading in (("server",) if several else ()) + ("check", "operator"):
        table.add_column(heading)
    for heading in (*Verdict, "worst of limit", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right")
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        size = (row.case,) if row.check == "latency" else ()
        name = " ".join((row.operator, *size))
        groups.setdefault(((row.origin.target,) if several else ()) + (row.check, name), []).append(row)
    for key, group in groups.items():
        counts = [sum(row.verdict is verdict for row in group) for verdict in Verdict]
        cells = [
            f"[{_STYLES[verdict]}]{count}[/]" if count else "" for verdict, count in zip(Verdict, counts, strict=True)
        ]
        table.add_row(*map(escape, key), *cells, *_worst(group))
    return table


def _worst(rows: Sequence[Row]) -> Iterator[str]:
    for figure, form in (("error_of_limit", ".1%"), ("p50_ms", ".2f"), ("p99_ms", ".2f")):
        values = [value for row in rows if (value := row.figures.get(figure)) is not None]
        yield format(max(values), form) if values else ""
