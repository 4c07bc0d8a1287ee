"""The command line: flags to a run, and a run to an exit code."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console

import aclgrad as package
from aclgrad.check.console import Display
from aclgrad.check.html import render
from aclgrad.check.report import End, Report, read_rows, write_line
from aclgrad.check.rows import Row
from aclgrad.check.run import plan, run
from aclgrad.check.target import CheckError, open_target
from aclgrad.errors import AclgradError

_UNUSABLE = 2
_INTERRUPTED = 130
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
@click.version_option(package.__version__)
def aclgrad() -> None:
    """Gradients from an Ascend card that is not in this machine."""


@aclgrad.command()
@click.argument("target")
@click.option("--against", metavar="TARGET", help="A second server on the same product, to compare bit by bit.")
@click.option("--quick", is_flag=True, help="Fewer cases and no large ones: seconds.")
@click.option(
    "--json", "json_path", type=_FILE, help="Write a JSON line for each row, and a last one with the summary."
)
@click.option("--html", "html_path", type=_FILE, help="Write a report with plots.")
@click.option("--compare", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Show the rows of an earlier --json FILE beside this run's in the HTML report.")  # fmt: skip
@click.option("--timeout-s", default=120.0, show_default=True, help="Time limit of one call.")
def check(
    target: str,
    against: str | None,
    quick: bool,
    json_path: Path | None,
    html_path: Path | None,
    compare: Path | None,
    timeout_s: float,
) -> None:
    """Compares what the server at TARGET computes with the operators' definitions, and prints which switches are safe.

    Exits with 0 if all rows passed, 1 if one failed, 2 if the server cannot be checked, 130 if interrupted.
    """
    if compare and not html_path:
        raise click.UsageError("--compare shows an earlier run in the HTML report; add --html FILE")
    try:
        sys.exit(_check(target, against, quick, json_path, html_path, compare, timeout_s))
    except (CheckError, AclgradError, OSError) as error:
        click.echo(f"aclgrad check: {error}", err=True)
        sys.exit(_UNUSABLE)
    except KeyboardInterrupt:
        click.echo("aclgrad check: interrupted", err=True)
        sys.exit(_INTERRUPTED)


def _check(
    target: str,
    against: str | None,
    quick: bool,
    json_path: Path | None,
    html_path: Path | None,
    compare: Path | None,
    timeout_s: float,
) -> int:
    compared = read_rows(str(compare), compare.read_text("utf-8").splitlines()) if compare else []
    report, display = Report(), Display(Console())
    with ExitStack() as stack:
        server = stack.enter_context(open_target(target, timeout_s))
        other = stack.enter_context(open_target(against, timeout_s)) if against else None
        tasks = plan(server, other, is_quick=quick)
        file = stack.enter_context(json_path.open("w", encoding="utf-8")) if json_path else None
        with display.of(len(tasks)):
            run(tasks, server, other, lambda row: _take(row, display, file), report)
        display.end(report)
        if file:
            write_line(file, {"summary": report.summary()})
    if html_path:
        html_path.write_text(render(report, compared, str(compare or "")), encoding="utf-8")
    if report.end is not End.COMPLETE:
        click.echo(f"aclgrad check: {report.message}; the report is partial", err=True)
    return report.exit_code


def _take(row: Row, display: Display, file: TextIO | None) -> None:
    if file:
        write_line(file, row.to_json())
    display.take(row)
