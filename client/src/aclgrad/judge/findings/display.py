"""The output of a run: a bar and tables on a terminal, plain lines elsewhere, and a self-contained HTML page."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

import aclgrad
from aclgrad.judge.findings.charts import error_charts, latency_charts
from aclgrad.judge.findings.rows import Element, Origin, Report, Row, Verdict, by_key, worst_first
from aclgrad.progress import Bar, progress
from aclgrad.tables import table as columns

STYLES = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.NOTED: "yellow", Verdict.SKIPPED: "dim"}


class Screen:
    """A console, and a bar below its lines."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self._console = console
        self._verbose = verbose
        self._bar = Bar()

    @contextmanager
    def of(self, planned: int) -> Iterator[None]:
        """Shows a bar within the block."""
        with progress(planned, "calls") as self._bar:
            yield
        self._bar = Bar()

    def advance(self, description: str, by: int = 1) -> None:
        """Advances the bar."""
        self._bar.advance(description, by)

    def tell(self, lines: Iterable[str]) -> None:
        """Prints what else there is to know after the run."""
        for line in lines:
            self._console.print(escape(line), soft_wrap=True, highlight=False)


class Display(Screen):
    """Shows failed rows, or with `verbose` all rows, as they arrive, and `tables` at the end."""

    def __init__(self, console: Console, *, verbose: bool = False, is_by_operator: bool = False) -> None:
        """Takes whether the table always has a line for each operator, even if not verbose."""
        super().__init__(console, verbose=verbose)
        self._is_by_operator = is_by_operator or verbose

    def take(self, row: Row) -> None:
        """Shows one row if wanted."""
        self.advance(f"{row.check} {row.operator}")
        if not self._verbose and row.verdict is not Verdict.FAILED:
            return
        style = STYLES[row.verdict]
        lines = [f"[{style}]{row.verdict:8}[/] {escape(line_of(row))}"]
        # The first is in the row's own message.
        others = row.worst[1:] if row.verdict is Verdict.FAILED else ()
        lines += [f"{'':8} {escape(element_of(each))}" for each in others]
        self._console.print(*lines, sep="\n", soft_wrap=True, highlight=False)

    def tables(self, report: Report) -> Iterator[RenderableType]:
        """Yields the tables of each server, under its name."""
        for target, rows in by_key(report.rows, lambda row: row.origin.target).items():
            for table in _by_operator(rows) if self._is_by_operator else [_by_check(rows)]:
                yield from (escape(target), table)

    def end(self, report: Report) -> None:
        """Shows the tables, the switches, the conclusions, and how the run ended."""
        for each in self.tables(report):
            self._console.print(each, soft_wrap=isinstance(each, str), highlight=False)
        for finding in report.switches:
            text = f"{finding.switch}: {finding.verdict} ({finding.why})"
            self._console.print(escape(text), soft_wrap=True, highlight=False)
        if report.conclusion:
            self._console.print(escape(report.conclusion), soft_wrap=True, highlight=False)
        counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
        ending = f"{report.end}: {counts}; {len(report.rows)} of {report.planned} rows in {report.seconds:.1f} s"
        if not self._verbose:
            ending += "; --verbose shows all rows"
        self._console.print(escape(ending), soft_wrap=True, highlight=False)


def line_of(row: Row) -> str:
    """Returns the text of a row, without its verdict."""
    shape = "x".join(map(str, row.shape))
    told = " ".join(part for part in (row.check, row.operator, row.dtype, shape, row.case) if part)
    figures = ", ".join(figures_of(row))
    return "; ".join(part for part in (told, figures, row.message) if part)


def element_of(element: Element) -> str:
    """Returns the text of one wrong element."""
    at = ", ".join(map(str, element.index))
    return f"at ({at}): {element.computed:.9g}, expected {element.expected:.9g}, ratio {element.ratio + 0.0:.6g}"


def figures_of(row: Row) -> Iterator[str]:
    """Yields the most important figures."""
    if "a_of_limit" in row.figures:
        yield f"A {share_of(row.figures['a_of_limit'])}, B {share_of(row.figures['b_of_limit'])} of the limit"
    elif (share := row.figures.get("error_of_limit")) is not None:
        yield f"error {row.figures['max_error']:.2g}, {share_of(share)} of the limit"
    if (slope := row.figures.get("slope")) is not None and f"{slope:.3g}" != "1":
        yield f"{slope:.4g} times the definition"
    if row.figures.get("p50_ms") is not None:
        yield f"p50 {row.figures['p50_ms']:.2f} ms, p99 {row.figures['p99_ms']:.2f} ms"


def share_of(error: float | None) -> str:
    """Returns the text of an error as a share of its limit; None means not finite."""
    return f"{math.inf if error is None else error:.1%}"


def _by_check(rows: Sequence[Row]) -> Table:
    return _counted("check", rows, lambda row: (row.check,))


def _by_operator(rows: Sequence[Row]) -> Iterator[Table]:
    """Yields separate tables of verdicts and times, which together exceed 80 columns."""
    by_kind = by_key(rows, lambda row: row.figures.get("p50_ms") is None)
    judged, timed = by_kind.get(True, []), by_kind.get(False, [])
    yield _counted("check operator", judged, lambda row: (row.check, _short(row)))
    table = columns("operator gradient", "p50 ms", "p99 ms")
    for row in timed:
        table.add_row(_short(row), row.case, *(f"{row.figures[name]:.2f}" for name in ("p50_ms", "p99_ms")))
    if timed:
        yield table


def _counted(headings: str, rows: Sequence[Row], key: Callable[[Row], tuple[str, ...]]) -> Table:
    """Returns a line for each group of rows: the number of each verdict, and the largest error."""
    all_counts = Counter(row.verdict for row in rows)
    verdicts = [verdict for verdict in Verdict if all_counts[verdict]]
    table = columns(headings, *verdicts, "of limit")
    for names, group in by_key(rows, key).items():
        counts = Counter(row.verdict for row in group)
        cells = [f"[{STYLES[each]}]{counts[each]}[/]" if counts[each] else "" for each in verdicts]
        errors = [error for row in group if (error := row.figures.get("error_of_limit")) is not None]
        table.add_row(*names, *cells, f"{max(errors):.1%}" if errors else "")
    return table


def _short(row: Row) -> str:
    """Returns the operator's name without the common suffix."""
    return escape(row.operator.removesuffix("_backward"))


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one server in one run."""

    title: str
    origin: Origin
    rows: Sequence[Row]

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def checks(self) -> list[str]:
        return list(dict.fromkeys(row.check for row in self.rows))

    @property
    def summary(self) -> list[tuple[str, list[dict[Verdict, int]]]]:
        """The number of rows with each verdict, by operator and check; rows without an operator are the server's."""
        counts: dict[str, dict[str, dict[Verdict, int]]] = {}
        for row in self.rows:
            cell = counts.setdefault(row.operator or "the server", {}).setdefault(row.check, {})
            cell[row.verdict] = cell.get(row.verdict, 0) + 1
        return [(name, [cells.get(check, {}) for check in self.checks]) for name, cells in sorted(counts.items())]

    @property
    def charts(self) -> list[Markup]:
        return [Markup(chart) for chart in (*error_charts(self.rows), *latency_charts(self.rows))]

    @property
    def tolerances(self) -> list[tuple[str, str, float, float]]:
        """The tolerances by operator and dtype."""
        own = [row for row in self.rows if row.figures.get("relative_tolerance") is not None]
        return sorted(
            {
                (
                    row.operator,
                    row.dtype,
                    row.figures["relative_tolerance"] or 0,
                    row.figures["absolute_tolerance"] or 0,
                )
                for row in own
            }
        )


def new_environment() -> Environment:
    """Returns the environment for the judge's templates, in which undefined variables are errors."""
    loader = PackageLoader("aclgrad.judge", "")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def render(
    report: Report,
    compared: Sequence[Row] = (),
    compared_name: str = "",
    *,
    program: str = "check",
    template: str = "findings/report.html.j2",
    **more: Any,
) -> str:
    """Returns the page with the run's servers and, beside them, those of an earlier run. The worst rows come first.

    `template` is the path in this package of a page that extends the check's, and `more` has its further variables.
    """
    sides = [*_sides(report.rows, "this run"), *_sides(compared, compared_name)]
    notable = worst_first([row for row in report.rows if row.verdict is not Verdict.PASSED])
    page: dict[str, Any] = {
        "program": program,
        "changes": changes(report.rows, compared),
        "notable": notable,
        "sides": sides,
        **more,
    }
    page |= {"report": report, "verdicts": tuple(Verdict), "line_of": line_of, "version": aclgrad.__version__}
    return new_environment().get_template(template).render(page)


def changes(rows: Sequence[Row], compared: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Returns the pairs of rows about the same case, of two servers, whose verdicts differ."""
    earlier, later = _by_case(compared), _by_case(rows)
    pairs = [(earlier[case], row) for case, row in later.items() if case in earlier]
    return [(before, now) for before, now in pairs if before.verdict is not now.verdict]


def _by_case(rows: Sequence[Row]) -> dict[tuple[object, ...], Row]:
    servers = list(dict.fromkeys(row.origin for row in rows))
    return {(servers.index(row.origin), row.check, row.operator, row.dtype, row.case): row for row in rows}


def _sides(rows: Sequence[Row], run: str) -> list[Side]:
    return [Side(run, origin, own) for origin, own in by_key(rows, lambda row: row.origin).items()]
