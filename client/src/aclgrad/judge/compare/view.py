"""How a comparison of two servers is shown: on a terminal, and as a page."""

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.markup import escape

from aclgrad.judge.compare.summary import Line, lines_of
from aclgrad.judge.findings.display import STYLES, Display, render, share_of
from aclgrad.judge.findings.rows import Report, Verdict
from aclgrad.tables import table


class PairDisplay(Display):
    """Shows both servers at the end, above a line for each operator and dtype in which they differ, or for each."""

    def tables(self, report: Report) -> Iterator[RenderableType]:
        for side, told in report.servers.items():
            yield escape(f"{side}: {server_line(told)}")
        overview = table("operator dtype", "A", "B", "elements", "ULPs", "varies")
        for line in shown(report):
            if line.verdict is Verdict.PASSED and not self._verbose:
                continue
            overview.add_row(f"[{STYLES[line.verdict]}]{escape(line.short)}[/]", line.dtype, *cells_of(line))
        if overview.row_count:
            yield overview


def server_line(told: Mapping[str, str]) -> str:
    """Returns what a server is, as one line."""
    target, *others = told.items()
    return ", ".join([target[1], *(f"{name} {value}" for name, value in others)])


def shown(report: Report) -> list[Line]:
    """Returns the lines of operators that were compared, or could not be because calls failed."""
    return [line for line in lines_of(report.rows) if line.verdict is not Verdict.SKIPPED]


def cells_of(line: Line) -> list[str]:
    """Returns the figures of a line: errors of A and B as shares of the limit, and how far they are apart."""
    if not line.is_compared:
        return []
    shares = [share_of(error) if error < 100 else ">9999%" for error in map(line.largest, ("a_of_limit", "b_of_limit"))]
    different, ulps = line.largest("different"), line.largest("max_ulps")
    elements = "<0.1%" if 0 < different < 0.001 else f"{different:.1%}" if different else "0"
    return [*shares, elements, f"{ulps:.0f}" if ulps < 1e5 else f"{ulps:.1e}", line.varying]


def page(report: Report) -> str:
    """Returns the HTML page."""
    return render(
        report, program="compare", template="judge/compare/report.html.j2", lines=shown(report), cells_of=cells_of
    )
