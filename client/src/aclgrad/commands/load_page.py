"""The page of a load test: first what may be promised, then where and when that was measured, and how it was found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from aclgrad.commands.machine import machine
from aclgrad.commands.promise import CALLERS, CONFIRMED_FOR, HALVINGS, LESS, TRIES, Probe, Search
from aclgrad.judge.findings.charts import Axis, chart, curve, dots
from aclgrad.units import counted

_LEAST: Final = 1e-3
"""Logarithmic axes have no 0."""
KEPT: Final = "kept"
MISSED: Final = "missed"
_STYLES: Final = {KEPT: "passed", MISSED: "failed"}
_HEADINGS: Final = ("offered calls/s", "answered calls/s", "p50 ms", "p99 ms", "failed", "generator", "p99 limit")
_COLUMNS: Final = {
    "offered, answered": "Calls due each second, whether earlier ones have ended or not, and calls that were answered.",
    "p50, p99": "Half, and 99 in 100, of the calls took at most so long, counted from when each was due.",
    "generator": "Cores that the process which makes the calls took. Near 1, it may be what limits the rate.",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; charts are SVG elements."""

    title: str
    about: str
    tables: Sequence[Grid]
    charts: Sequence[str] = field(default=())


def headline(searches: Sequence[Search]) -> str:
    """Returns the line for who must promise: `here: 900 calls/s of 16 KB at p99 below 10 ms; ...`."""
    return f"here: {'; '.join(map(_promise, searches)) or 'nothing was measured'}"


def warnings(searches: Sequence[Search], early: str = "") -> list[str]:
    """Returns what readers of the headline have to know; `early` says why the run ended early."""
    found = [f"The run ended early: {early}. What was measured before is below."] if early else []
    return found + [
        f"For {each.name}, the generator took {each.promised.generator_cores:.2f} cores of one that it can use, so the "
        "server may carry more. Run the load from several processes or machines at once."
        for each in searches
        if each.promised is not None and each.generator_limits
    ]


def facts(target: str, served: str, version: str, *, beside: str) -> dict[str, str]:
    """Returns when and where it was measured; `beside` says where the load generator ran."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "version": version,
        "server": f"{target}, {served}",
        "machine": machine(),
        "load generator": beside,
    }


def search_section(search: Search) -> Section:
    """Returns how a promise was found."""
    about = (
        f"A closed loop of {CALLERS} callers found about how many the server answers at most. An open loop then "
        f"offered rates for {search.seconds:g} s each, {HALVINGS} times in the middle between the highest rate that "
        f"was kept and the lowest that was not. A rate is kept if no call fails and p99 is at most {search.limit_ms:g} "
        f"ms, in one of {TRIES} tries. The highest was offered again, {CONFIRMED_FOR} times as long; if it was "
        f"not kept, {LESS:g} times as much was."
    )
    probes = [each for each in search.probes if each.measured.milliseconds]
    return Section(
        f"How it was found: {search.name}",
        about,
        [Grid(_HEADINGS, [_cells(each, search) for each in search.probes])],
        [_p99_chart(search, probes)] if any(each.offered for each in probes) else [],
    )


def render(
    title: str,
    searches: Sequence[Search],
    facts: Mapping[str, str],
    sections: Iterable[Section] = (),
    columns: Mapping[str, str] | None = None,
    *,
    early: str = "",
) -> str:
    """Returns the page: the promises, how each was found, then other sections, and what the columns mean.

    `early` says why the run ended early.
    """
    # What a page is not given is an error.
    environment = Environment(
        loader=PackageLoader("aclgrad", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("commands/load_page.html.j2").render(
        title=title,
        headline=headline(searches),
        warnings=warnings(searches, early),
        facts=facts,
        sections=[*map(search_section, searches), *sections],
        columns=_COLUMNS | dict(columns or {}),
        styles=_STYLES,
    )


def curves(title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Returns a chart of a curve for each name, on logarithmic axes."""
    drawn = {name: [(max(x, _LEAST), max(y, _LEAST)) for x, y in sorted(points)] for name, points in series.items()}
    points = [each for own in drawn.values() for each in own]
    axes = Axis.over(across, [x for x, _ in points]), Axis.over(up, [y for _, y in points])
    return chart(title, axes, drawn, curve)


def _promise(search: Search) -> str:
    limit = f"p99 below {search.limit_ms:g} ms"
    if search.promised is not None:
        return f"{search.promised.offered:,.0f} {search.name} at {limit}"
    if not search.probes:
        return f"{search.name}: not measured"
    if not search.has_ended:
        return f"{search.name}: not found yet, the run ended early"
    offered = [each.offered for each in search.probes if each.offered]
    lowest = f", not even at {min(offered):,.0f}" if offered else ""
    return f"{search.name}: none was found at {limit}{lowest}"


def _cells(probe: Probe, search: Search) -> tuple[str, ...]:
    measured, times = probe.measured, probe.measured.percentiles()
    return (
        f"{probe.offered:,.0f}" if probe.offered else f"closed loop, {counted(CALLERS, 'caller')}",
        f"{measured.rate:,.0f}",
        *(f"{times[name]:.2f}" if times else "" for name in ("p50", "p99")),
        ", ".join(f"{count} {reason}" for reason, count in measured.errors.most_common()) or "none",
        f"{probe.generator_cores:.2f}",
        "" if not probe.offered else KEPT if probe.keeps(search.limit_ms) else MISSED,
    )


def _p99_chart(search: Search, probes: Sequence[Probe]) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for each in probes:
        if each.offered:
            verdict = KEPT if each.keeps(search.limit_ms) else MISSED
            series.setdefault(verdict, []).append((each.offered, max(each.p99_ms, _LEAST)))
    points = [each for own in series.values() for each in own]
    axes = (
        Axis.over("offered calls/s", [x for x, _ in points]),
        Axis.over("p99, ms", [search.limit_ms, *(y for _, y in points)]),
    )
    return chart(f"p99 by offered rate: {search.name}", axes, series, dots, limit=search.limit_ms)
