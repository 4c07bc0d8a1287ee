"""The command line of a comparison: its flags, its output on a terminal and as a page, and its exit code."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import RenderableType
from rich.markup import escape

from aclgrad._client.channel.targets import targets_of
from aclgrad.exits import output_console
from aclgrad.judge.check.target import CheckError, Target, open_target
from aclgrad.judge.compare.pairs import Call, pair_tasks, table_calls, ulps
from aclgrad.judge.findings.display import STYLES, Display, render, share_of
from aclgrad.judge.findings.rows import (
    NOT_COMPARED,
    NOT_SAFE,
    SAFE,
    End,
    Report,
    Row,
    SwitchFinding,
    Verdict,
    by_key,
    names_of,
    worst_first,
)
from aclgrad.judge.findings.run import Told, check_outputs, exits_by_report, judge_all
from aclgrad.progress import waiting
from aclgrad.tables import table

_NAMED: Final = 3
"""How many operators a sentence names."""
_NOTICEABLE: Final = 0.01
"""One server is worse than the other if its error exceeds the other's by this share of the limit."""


@dataclass(frozen=True, slots=True)
class Line:
    """The rows of one operator and dtype, the worst first."""

    operator: str
    dtype: str
    rows: Sequence[Row]

    @property
    def short(self) -> str:
        """The operator's name without the common suffix."""
        return self.operator.removesuffix("_backward")

    @property
    def name(self) -> str:
        return f"{self.short} {self.dtype}"

    @property
    def verdict(self) -> Verdict:
        return self.rows[0].verdict

    @property
    def is_compared(self) -> bool:
        """Whether both servers answered one of the calls."""
        return any(row.figures for row in self.rows)

    def largest(self, figure: str) -> float:
        """Returns the largest figure of the rows; None means not finite."""
        found = [row.figures[figure] for row in self.rows if figure in row.figures]
        return max((math.inf if each is None else each for each in found), default=0.0)

    @property
    def varying(self) -> str:
        """The servers whose repeated runs differ."""
        return ", ".join(side for side in "AB" if self.largest(f"{side.lower()}_varied"))


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Returns the lines, the worst first."""
    groups = by_key(worst_first(rows), lambda row: (row.operator, row.dtype))
    return [Line(*key, group) for key, group in groups.items()]


def conclusion_of(lines: Sequence[Line], a: Target, b: Target) -> str:
    """Returns the result in one sentence."""
    told = list(_failures(lines))
    compared = [line for line in lines if line.is_compared]
    different = [line for line in compared if line.largest("different")]
    count, all_ = (len({line.operator for line in each}) for each in (different, compared))
    if not compared:
        told.append("nothing was compared")
    elif different:
        most = ulps(max(line.largest("max_ulps") for line in different))
        told.append(f"{count} of {all_} operators differ, by at most {most}")
        told += _worse(different)
    else:
        told.append(f"A and B give the same bits in all {all_} operators")
    for side in "AB":
        if names := [line.name for line in compared if side in line.varying]:
            told.append(f"repeated runs of {side} differ in {_named(names)}")
    if skipped := len({line.operator for line in lines} - {line.operator for line in compared}):
        told.append(f"not compared: {skipped} of {skipped + all_} operators")
    if a.origin == b.origin:
        told.append("A and B are the same server: this compares it with itself")
    return "; ".join(told)


def executor_cache(report: Report, a: Target, b: Target, *, is_whole: bool) -> list[SwitchFinding]:
    """Returns whether --executor-cache is safe, if one of the servers has it on and the other off."""
    switch = "--executor-cache"
    compared = [row for row in report.rows if row.verdict is not Verdict.SKIPPED]
    if a.executor_cache == b.executor_cache:
        return []
    if different := [row for row in compared if row.verdict is not Verdict.PASSED]:
        return [SwitchFinding(switch, NOT_SAFE, f"gradients differ or calls fail: {names_of(different)}")]
    if report.end is not End.COMPLETE:
        return [SwitchFinding(switch, NOT_COMPARED, "the run did not come to its end")]
    if not is_whole or not compared:
        return [SwitchFinding(switch, NOT_COMPARED, "not all operators were compared")]
    return [SwitchFinding(switch, SAFE, f"{len(compared)} calls with repeated executors gave the bits of fresh ones")]


def described(target: Target) -> dict[str, str]:
    """Returns the description of a server, with all its versions."""
    status = target.status
    told = {
        "target": target.origin.target,
        "product": status.product,
        "library": status.library,
        "runtime": status.runtime_version,
        "aclgrad": status.version,
        **status.versions,
        "turned off": ", ".join(target.turned_off),
    }
    return {name: value for name, value in told.items() if value}


def _failures(lines: Sequence[Line]) -> Iterator[str]:
    for side in "AB":
        if names := [line.name for line in lines if line.largest(f"{side.lower()}_wrong")]:
            yield f"{side} is wrong in {_named(names)}"
    if names := [line.name for line in lines if any(_is_broken(row) for row in line.rows)]:
        yield f"calls fail in {_named(names)}"


def _is_broken(row: Row) -> bool:
    return row.verdict is Verdict.FAILED and not row.figures


def _worse(lines: Sequence[Line]) -> Iterator[str]:
    for worse, other in ("BA", "AB"):
        names = []
        for line in lines:
            own, others = (line.largest(f"{side.lower()}_of_limit") for side in (worse, other))
            if own > others + _NOTICEABLE and not line.largest(f"{worse.lower()}_wrong"):
                names.append(f"{line.name} ({share_of(own)} of the limit, {other} {share_of(others)})")
        if names:
            yield f"{worse} is worse than {other} in {_named(names)}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


class PairDisplay(Display):
    """Shows both servers at the end, with a line for each operator and dtype, or only those that differ."""

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
    """Returns the description of a server in one line."""
    target, *others = told.items()
    return ", ".join([target[1], *(f"{name} {value}" for name, value in others)])


def shown(report: Report) -> list[Line]:
    """Returns the lines of operators that were compared, or could not be because calls failed."""
    return [line for line in lines_of(report.rows) if line.verdict is not Verdict.SKIPPED]


def cells_of(line: Line) -> list[str]:
    """Returns the figures of a line: errors of A and B as shares of the limit, and their difference."""
    if not line.is_compared:
        return []
    shares = [share_of(error) if error < 100 else ">9999%" for error in map(line.largest, ("a_of_limit", "b_of_limit"))]
    different, ulps = line.largest("different"), line.largest("max_ulps")
    elements = "<0.1%" if 0 < different < 0.001 else f"{different:.1%}" if different else "0"
    return [*shares, elements, f"{ulps:.0f}" if ulps < 1e5 else f"{ulps:.1e}", line.varying]


def page(report: Report) -> str:
    """Returns the HTML page."""
    return render(report, program="compare", template="compare/report.html.j2", lines=shown(report), cells_of=cells_of)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags."""

    a: str
    b: str
    only: tuple[str, ...]
    dump: Path | None
    quick: bool
    verbose: bool
    rows: Path | None
    as_json: bool
    html: Path | None
    force: bool
    timeout_s: float


@exits_by_report
def compare(options: Options) -> tuple[Report, Told]:
    """Compares the servers, shows and writes the rows, and exits."""
    check_outputs((options.rows, options.html), overwrite=options.force)
    dumped: list[Call] = []
    if options.dump:
        # Only this needs PyTorch.
        from aclgrad.judge.compare.dumped import dump_calls

        with waiting(f"reading {options.dump}"):
            dumped = list(dump_calls(options.dump, options.only))
    with ExitStack() as stack:
        with waiting(f"waiting for {options.a} and {options.b}"):
            a, b = (stack.enter_context(open_target(_one(each), options.timeout_s)) for each in (options.a, options.b))
        calls = dumped if options.dump else table_calls(a, b, options.only, is_quick=options.quick)
        tasks = pair_tasks(a, b, calls, is_again=not (options.quick or options.dump))

        def conclude(report: Report) -> None:
            report.servers = {"A": described(a), "B": described(b)}
            report.conclusion = conclusion_of(lines_of(report.rows), a, b)
            report.switches = executor_cache(report, a, b, is_whole=not (options.only or options.dump))

        report = judge_all(tasks, PairDisplay(output_console(), verbose=options.verbose), options.rows, conclude)
    if options.html:
        options.html.write_text(page(report), encoding="utf-8")
    return report, report.told


def _one(targets: str) -> str:
    found = targets_of(targets)
    if len(found) != 1:
        raise CheckError(f"{targets} names {len(found)} servers; compare one with one other")
    return found[0]
