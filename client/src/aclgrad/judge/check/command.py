"""The command line of a check: its tasks, its flags, and its exit code."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from aclgrad._client.channel.targets import targets_of
from aclgrad.exits import output_console
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.check.exports import Exports, check_unused
from aclgrad.judge.check.gradients import accuracy, fills, layouts, statistics
from aclgrad.judge.check.programs import program
from aclgrad.judge.check.repetition import determinism, invariance, shape_only, views
from aclgrad.judge.check.service import latency, listing, memory
from aclgrad.judge.check.target import Selection, Target, open_target
from aclgrad.judge.findings.display import Display, render
from aclgrad.judge.findings.rows import (
    NOT_COMPARED,
    NOT_SAFE,
    SAFE,
    End,
    Report,
    Row,
    SwitchFinding,
    Task,
    Verdict,
    names_of,
    read_rows,
)
from aclgrad.judge.findings.run import Told, WorstCall, check_outputs, exits_by_report, judge_all
from aclgrad.new_files import check_unwritten
from aclgrad.progress import waiting

Check = Callable[[Selection], Iterator[Task]]

CHECKS: Final[dict[str, Check]] = {
    check.__name__: check
    for check in (
        listing,
        accuracy,
        statistics,
        layouts,
        fills,
        determinism,
        shape_only,
        views,
        invariance,
        program,
        latency,
        memory,
    )
}
"""In running order; memory is last, because it checks what the others left behind."""
_ON_REQUEST: Final = {invariance.__name__, program.__name__}
"""Checks on request: no card promises the one, and few users need it; the other is about chains of operators."""


def tasks_of(target: Target, only: Collection[str] = (), *, is_quick: bool) -> list[Task]:
    """Returns the tasks on a server.

    `only` names the checks to make, by default all but those on request. Services are always checked.
    """
    selection = Selection(target, is_quick)
    chosen = {listing.__name__, *only} if only else CHECKS.keys() - _ON_REQUEST
    return [task for name, check in CHECKS.items() if name in chosen for task in check(selection)]


def judge_switches(report: Report, targets: Sequence[Target]) -> list[SwitchFinding]:
    """Returns the finding about each server, with its name if there are several."""
    found = []
    for target in targets:
        for switch, (check, judge) in _SWITCHES.items():
            own = [row for row in report.rows if row.check == check and row.origin == target.origin]
            named = switch if len(targets) == 1 else f"{target.origin.target} {switch}"
            verdict, why = judge(own)
            if report.end is not End.COMPLETE and verdict != NOT_SAFE:
                verdict, why = NOT_COMPARED, "the run did not come to its end"
            found.append(SwitchFinding(named, verdict, why))
    return found


def _shape_only(rows: Sequence[Row]) -> tuple[str, str]:
    unsent = [row for row in rows if row.figures.get("unsent")]
    different = [row for row in rows if row.verdict is not Verdict.PASSED]
    if different:
        return NOT_SAFE, f"values matter or calls fail: {names_of(different)}"
    if not rows:
        return NOT_COMPARED, "no call without values was made"
    if not unsent:
        why = "the values are not read, but no call went without them; check a server with --shape-only on"
        return NOT_COMPARED, why
    return SAFE, f"{len(unsent)} calls without values gave the bits of calls with them"


def _strided_inputs(rows: Sequence[Row]) -> tuple[str, str]:
    """The switch takes names, so that a failing operator does not turn it off for others.

    Noted rows are right, with sums in another order.
    """
    read = {row.operator for row in rows if row.figures.get("read_as_they_are")}
    wrong = {row.operator for row in rows if row.verdict not in (Verdict.PASSED, Verdict.NOTED)}
    if right := sorted(read - wrong):
        if wrong:
            return SAFE, f"{','.join(right)} are right with transposed inputs; not {', '.join(sorted(wrong))}"
        return SAFE, f"all: {len(right)} operators are right with transposed inputs"
    if wrong:
        return NOT_SAFE, f"transposed inputs change the result, or calls fail: {', '.join(sorted(wrong))}"
    if not rows:
        return NOT_COMPARED, "no call with a transposed input was made"
    return NOT_COMPARED, "copies give the right bits; check a server with --strided-inputs all"


_SWITCHES: Final[Mapping[str, tuple[str, Callable[[Sequence[Row]], tuple[str, str]]]]] = {
    "--shape-only": ("shape_only", _shape_only),
    "--strided-inputs": ("views", _strided_inputs),
}
"""The check that decides about each switch, and how."""


@dataclass(frozen=True, slots=True)
class Options:
    """The flags."""

    target: str
    quick: bool
    verbose: bool
    only: tuple[str, ...]
    invariance: bool
    program: bool
    rows: Path | None
    as_json: bool
    html: Path | None
    compare: Path | None
    bundle: Path | None
    msprobe: Path | None
    force: bool
    timeout_s: float


@exits_by_report
def check(options: Options) -> tuple[Report, Told]:
    """Checks the servers, shows and writes the rows, and exits."""
    for name, path in (("--rows", options.rows), ("--html", options.html)):
        if path and options.compare and path.exists() and path.samefile(options.compare):
            raise ValueError(
                f"{path} is the earlier run of --compare, which {name} would destroy; give {name} another file"
            )
    check_outputs((options.rows, options.html, options.bundle), overwrite=options.force)
    if options.bundle:
        check_unwritten(options.bundle, overwrite=options.force)
    if options.msprobe:
        check_unused(options.msprobe)
    compared = read_rows(options.compare, Row.from_json, "give a file of --rows") if options.compare else []
    worst = WorstCall()
    with ExitStack() as stack:
        with waiting(f"waiting for {options.target}"):
            servers = [stack.enter_context(open_target(each, options.timeout_s)) for each in targets_of(options.target)]
        asked = {invariance.__name__: options.invariance, program.__name__: options.program}
        only = (*options.only, *(name for name, is_asked in asked.items() if is_asked))
        tasks = [task for server in servers for task in tasks_of(server, only, is_quick=options.quick)]
        selections = [Selection(each, options.quick) for each in servers]
        exports = Exports(options.msprobe, selections) if options.msprobe else None

        def conclude(report: Report) -> None:
            report.switches = judge_switches(report, servers)

        def keep(row: Row, judged: JudgedProgram | None) -> None:
            worst.take(row, judged)
            if exports:
                exports.take(row, judged)

        display = Display(output_console(), verbose=options.verbose, is_by_operator=options.invariance)
        report = judge_all(tasks, display, options.rows, conclude, keep)
    if options.html:
        options.html.write_text(render(report, compared, str(options.compare)), encoding="utf-8")
    notes = list(exports.lines()) if exports else []
    if options.bundle:
        statuses = {each.origin: each.status for each in servers}
        notes.append(worst.write(options.bundle, statuses, overwrite=options.force))
    display.tell(notes)
    return report, partial(report.told, notes)
