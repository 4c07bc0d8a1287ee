"""The command line: flags to a run, and a run to an exit code."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console

from aclgrad._client.channel.targets import targets_of
from aclgrad.check.console import Display
from aclgrad.check.html import render
from aclgrad.check.report import End, Report, read_rows, write_line
from aclgrad.check.rows import Row
from aclgrad.check.run import CHECKS, plan, run
from aclgrad.check.target import CheckError, open_target
from aclgrad.errors import AclgradError

_UNUSABLE = 2
_INTERRUPTED = 130
_FILE = click.Path(dir_okay=False, path_type=Path)
_OLD_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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


@click.command()
@click.argument("target", envvar="ACLGRAD_TARGET")
@click.option("--against", metavar="TARGET", help="A second server on the same product, to compare bit by bit.")
@click.option("--quick", is_flag=True, help="Fewer cases and no large ones: seconds.")
@click.option("--only", type=click.Choice(tuple(CHECKS)), multiple=True, help="A check to make; repeatable.")
@click.option("--json", type=_FILE, help="Write a JSON line for each row, and a last one with the summary.")
@click.option("--html", type=_FILE, help="Write a report with plots.")
@click.option("--compare", type=_OLD_FILE, help="Show the rows of an earlier --json file beside this run's.")
@click.option("--timeout-s", default=120.0, show_default=True, help="Time limit of one call.")
def check(**given: Any) -> None:
    """Compares what the server at TARGET computes with the operators' definitions, and says which switches are safe.

    Several servers, with commas between them, are checked one after the other. ACLGRAD_TARGET also names them.

    Exits with 0 if no row failed, 1 if one did, 2 if the server cannot be checked, 130 if interrupted.
    """
    options = Options(**given)
    if options.compare and not options.html:
        raise click.UsageError("--compare shows an earlier run in the HTML report; add --html FILE")
    try:
        sys.exit(_check(options))
    except (CheckError, AclgradError, OSError) as error:
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
