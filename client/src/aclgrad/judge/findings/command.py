"""What the commands that judge have in common: from tasks to rows, a file of them and an exit code."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NoReturn, Protocol

import click

from aclgrad.errors import AclgradError
from aclgrad.judge.bundles import JudgedCall
from aclgrad.judge.findings.console import Display
from aclgrad.judge.findings.report import End, Report, write_line
from aclgrad.judge.findings.rows import Row, Task
from aclgrad.judge.findings.run import run
from aclgrad.new_files import is_of_output

_UNUSABLE: Final = 2
_INTERRUPTED: Final = 130


def judge_all(
    tasks: Sequence[Task],
    display: Display,
    json: Path | None,
    conclude: Callable[[Report], None],
    keep: Callable[[Row, JudgedCall | None], None] = lambda *_: None,
) -> Report:
    """Judges the tasks, and shows their rows and writes them to a file as they come.

    `conclude` adds to the report what follows from its rows, and `keep` gets each row with the call that was judged.
    """
    report = Report()
    with ExitStack() as stack:
        file = stack.enter_context(json.open("w", encoding="utf-8")) if json else None

        def take(row: Row, call: JudgedCall | None) -> None:
            if file:
                write_line(file, row.to_json())
            keep(row, call)
            display.take(row)

        with display.of(len(tasks)):
            run(tasks, take, report)
        conclude(report)
        display.end(report)
        if file:
            write_line(file, {"summary": report.summary()})
    return report


class Ended(Protocol):
    """A run that has ended: a report of rows, or what else says how."""

    @property
    def end(self) -> End: ...
    @property
    def message(self) -> str: ...
    @property
    def exit_code(self) -> int: ...


def end(program: str, command: Callable[[], Ended]) -> NoReturn:
    """Exits by the report of the command, or with a line that says why there is none."""
    try:
        report = command()
        if report.end is not End.COMPLETE:
            click.echo(f"aclgrad {program}: {report.message}; the report is partial", err=True)
        sys.exit(report.exit_code)
    except (AclgradError, OSError, ValueError) as error:
        if isinstance(error, OSError) and is_of_output(error):
            raise
        click.echo(f"aclgrad {program}: {error}", err=True)
        sys.exit(_UNUSABLE)
    except KeyboardInterrupt:
        click.echo(f"aclgrad {program}: interrupted", err=True)
        sys.exit(_INTERRUPTED)
