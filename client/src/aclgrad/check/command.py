"""The command line: flags to a run, and a run to an exit code."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from aclgrad._client.channel.targets import targets_of
from aclgrad.check.run import plan
from aclgrad.check.switches import judge_switches
from aclgrad.check.target import open_target
from aclgrad.judgement.command import end, judge_all
from aclgrad.judgement.console import Display
from aclgrad.judgement.html import render
from aclgrad.judgement.report import Report, read_rows
from aclgrad.judgement.worst import WorstCall
from aclgrad.new_files import check_unwritten, checked_folder


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    target: str
    quick: bool
    only: tuple[str, ...]
    json: Path | None
    html: Path | None
    compare: Path | None
    bundle: Path | None
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
    compared = read_rows(options.compare) if options.compare else []
    worst = WorstCall()
    with ExitStack() as stack:
        servers = [stack.enter_context(open_target(each, options.timeout_s)) for each in targets_of(options.target)]
        tasks = [task for server in servers for task in plan(server, options.only, is_quick=options.quick)]

        def conclude(report: Report) -> None:
            report.switches = judge_switches(report, servers)

        report = judge_all(tasks, Display(Console()), options.json, conclude, worst.take)
    if options.html:
        options.html.write_text(render(report, compared, str(options.compare)), encoding="utf-8")
    if options.bundle:
        statuses = {each.origin: each.status for each in servers}
        click.echo(worst.write(options.bundle, statuses, overwrite=options.force))
    return report
