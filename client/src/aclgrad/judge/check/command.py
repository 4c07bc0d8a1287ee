"""The command line: flags to a run, and a run to an exit code."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from aclgrad._client.channel.targets import targets_of
from aclgrad.judge.bundles import BundledCall
from aclgrad.judge.check.exports import Exports, check_unused
from aclgrad.judge.check.run import tasks_of
from aclgrad.judge.check.selection import Selection
from aclgrad.judge.check.switches import judge_switches
from aclgrad.judge.check.target import open_target
from aclgrad.judge.findings.display import Display, render
from aclgrad.judge.findings.rows import Report, Row, read_rows
from aclgrad.judge.findings.run import WorstCall, end, judge_all
from aclgrad.new_files import check_unwritten, checked_folder
from aclgrad.tables import new_console


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    target: str
    quick: bool
    verbose: bool
    only: tuple[str, ...]
    invariance: bool
    json: Path | None
    html: Path | None
    compare: Path | None
    bundle: Path | None
    msprobe: Path | None
    force: bool
    timeout_s: float


def check(options: Options) -> None:
    """Checks the servers, shows and writes the rows, and exits."""
    end("check", lambda: _check(options))


def _check(options: Options) -> Report:
    for path in filter(None, (options.html, options.bundle)):
        checked_folder(path)
    if options.bundle:
        check_unwritten(options.bundle, overwrite=options.force)
    if options.msprobe:
        check_unused(options.msprobe)
    compared = read_rows(options.compare) if options.compare else []
    worst = WorstCall()
    with ExitStack() as stack:
        servers = [stack.enter_context(open_target(each, options.timeout_s)) for each in targets_of(options.target)]
        only = (*options.only, *(["invariance"] if options.invariance else []))
        tasks = [task for server in servers for task in tasks_of(server, only, is_quick=options.quick)]
        selections = [Selection(each, options.quick) for each in servers]
        exports = Exports(options.msprobe, selections) if options.msprobe else None

        def conclude(report: Report) -> None:
            report.switches = judge_switches(report, servers)

        def keep(row: Row, call: BundledCall | None) -> None:
            worst.take(row, call)
            if exports:
                exports.take(row, call)

        display = Display(new_console(), verbose=options.verbose, is_by_operator=options.invariance)
        report = judge_all(tasks, display, options.json, conclude, keep)
    if options.html:
        options.html.write_text(render(report, compared, str(options.compare)), encoding="utf-8")
    for line in exports.told() if exports else ():
        click.echo(line)
    if options.bundle:
        statuses = {each.origin: each.status for each in servers}
        click.echo(worst.write(options.bundle, statuses, overwrite=options.force))
    return report
