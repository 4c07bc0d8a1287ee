"""The command line: flags to a run, and a run to an exit code."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console

from aclgrad._client.channel.targets import targets_of
from aclgrad.bundles import JudgedCall
from aclgrad.check.run import plan, run
from aclgrad.check.target import CheckError, open_target
from aclgrad.errors import AclgradError
from aclgrad.judgement.console import Display
from aclgrad.judgement.html import render
from aclgrad.judgement.report import End, Report, read_rows, write_line
from aclgrad.judgement.rows import Row
from aclgrad.judgement.worst import WorstCall
from aclgrad.new_files import check_unwritten, checked_folder

_UNUSABLE = 2
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    target: str
    against: str | None
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
    try:
        sys.exit(_check(options))
    except (AclgradError, OSError, ValueError) as error:
        click.echo(f"aclgrad check: {error}", err=True)
        sys.exit(_UNUSABLE)
    except KeyboardInterrupt:
        click.echo("aclgrad check: interrupted", err=True)
        sys.exit(_INTERRUPTED)


def _check(options: Options) -> int:
    _check_outputs(options)
    compared = read_rows(options.compare) if options.compare else []
    report, display, worst = Report(), Display(Console()), WorstCall()
    with ExitStack() as stack:
        servers = [stack.enter_context(open_target(each, options.timeout_s)) for each in targets_of(options.target)]
        other = stack.enter_context(open_target(options.against, options.timeout_s)) if options.against else None
        tasks = [task for server in servers for task in plan(server, other, options.only, is_quick=options.quick)]
        file = stack.enter_context(options.json.open("w", encoding="utf-8")) if options.json else None
        with display.of(len(tasks)):
            run(tasks, servers, other, lambda row, call: _take(row, call, display, file, worst), report)
        display.end(report)
        if file:
            write_line(file, {"summary": report.summary()})
    if options.html:
        options.html.write_text(render(report, compared, str(options.compare)), encoding="utf-8")
    if options.bundle:
        asked = servers if other is None else [*servers, other]
        statuses = {each.origin: each.status for each in asked}
        click.echo(worst.write(options.bundle, statuses, overwrite=options.force))
    if report.end is not End.COMPLETE:
        click.echo(f"aclgrad check: {report.message}; the report is partial", err=True)
    return report.exit_code


def _check_outputs(options: Options) -> None:
    """Raises CheckError for a file that could not be written: otherwise the whole run would be for nothing."""
    try:
        for path in filter(None, (options.html, options.bundle)):
            checked_folder(path)
        if options.bundle:
            check_unwritten(options.bundle, overwrite=options.force)
    except ValueError as error:
        raise CheckError(str(error)) from error


def _take(row: Row, call: JudgedCall | None, display: Display, file: TextIO | None, worst: WorstCall) -> None:
    if file:
        write_line(file, row.to_json())
    display.take(row)
    worst.take(row, call)
