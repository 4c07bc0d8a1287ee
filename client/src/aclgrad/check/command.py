"""The command line: flags to a run, and a run to an exit code."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console

from aclgrad._client.channel.targets import targets_of
from aclgrad.check.run import plan, run
from aclgrad.check.target import CheckError, open_target
from aclgrad.errors import AclgradError
from aclgrad.judgement.console import Display
from aclgrad.judgement.html import render
from aclgrad.judgement.report import End, Report, read_rows, write_line
from aclgrad.judgement.rows import Row

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
    if options.html and not options.html.parent.is_dir():
        # Otherwise the whole run would be for nothing.
        raise CheckError(f"{options.html} cannot be written: there is no folder {options.html.parent}; make it first")
    compared = read_rows(options.compare) if options.compare else []
    report, display = Report(), Display(Console())
    with ExitStack() as stack:
        servers = [stack.enter_context(open_target(each, options.timeout_s)) for each in targets_of(options.target)]
        other = stack.enter_context(open_target(options.against, options.timeout_s)) if options.against else None
        tasks = [task for server in servers for task in plan(server, other, options.only, is_quick=options.quick)]
        file = stack.enter_context(options.json.open("w", encoding="utf-8")) if options.json else None
        with display.of(len(tasks)):
            run(tasks, servers, other, lambda row: _take(row, display, file), report)
        display.end(report)
        if file:
            write_line(file, {"summary": report.summary()})
    if options.html:
        options.html.write_text(render(report, compared, str(options.compare)), encoding="utf-8")
    if report.end is not End.COMPLETE:
        click.echo(f"aclgrad check: {report.message}; the report is partial", err=True)
    return report.exit_code


def _take(row: Row, display: Display, file: TextIO | None) -> None:
    if file:
        write_line(file, row.to_json())
    display.take(row)
