"""The HTML report: a single file, with two columns for two servers or two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import aclgrad
from aclgrad.judge.findings.charts import error_charts, latency_charts
from aclgrad.judge.findings.console import line_of
from aclgrad.judge.findings.report import Report, worst_first
from aclgrad.judge.findings.rows import Origin, Row, Verdict


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


def render(
    report: Report,
    compared: Sequence[Row] = (),
    compared_name: str = "",
    *,
    program: str = "check",
    template: str = "judge/findings/report.html.j2",
    **more: Any,
) -> str:
    """Returns the page: the run's servers and, beside them, those of an earlier run. The worst rows come first.

    `template` is a path in this package, of a page that extends that of a check, and `more` is what else it shows.
    """
    sides = [*_sides(report.rows, "this run"), *_sides(compared, compared_name)]
    loader = FunctionLoader(lambda name: files("aclgrad").joinpath(name).read_text("utf-8"))
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    notable = worst_first([row for row in report.rows if row.verdict is not Verdict.PASSED])
    page: dict[str, Any] = {
        "program": program,
        "changes": changes(report.rows, compared),
        "notable": notable,
        "sides": sides,
        **more,
    }
    page |= {"report": report, "verdicts": tuple(Verdict), "line_of": line_of, "version": aclgrad.__version__}
    return environment.get_template(template).render(page)


def changes(rows: Sequence[Row], compared: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Returns the pairs of rows about the same case, of the first or the second server, whose verdicts differ."""
    earlier, later = _by_case(compared), _by_case(rows)
    pairs = [(earlier[case], row) for case, row in later.items() if case in earlier]
    return [(before, now) for before, now in pairs if before.verdict is not now.verdict]


def _by_case(rows: Sequence[Row]) -> dict[tuple[object, ...], Row]:
    servers = list(dict.fromkeys(row.origin for row in rows))
    return {(servers.index(row.origin), row.check, row.operator, row.dtype, row.case): row for row in rows}


def _sides(rows: Sequence[Row], run: str) -> list[Side]:
    origins = dict.fromkeys(row.origin for row in rows)
    return [Side(run, origin, [row for row in rows if row.origin == origin]) for origin in origins]
