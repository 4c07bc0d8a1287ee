"""Bars on a terminal: how much is done, how fast, and how long the rest takes.

They stand on standard error and are gone at the end, so that the output is the same with and without them.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from aclgrad.exits import wants_json
from aclgrad.tables import new_console
from aclgrad.units import rate


class Bar:
    """Counts what is done; shows it if there is a terminal."""

    def __init__(self, progress: Progress | None = None, planned: int = 0) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=planned) if progress else None

    def advance(self, description: str, by: int = 1) -> None:
        """Counts so many more, and says what is done now."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=by, description=escape(description))

    def echo(self, line: str) -> None:
        """Prints a line to the output; on a terminal it goes above the bar."""
        if self._progress is not None and sys.stdout.isatty():
            self._progress.console.print(Text.from_ansi(line), soft_wrap=True)
        else:
            click.echo(line)


@contextmanager
def progress(planned: int, unit: str) -> Iterator[Bar]:
    """Shows a bar within the block; `unit` is what it counts, such as "calls"."""
    console = new_console(stderr=True)
    if not planned or not is_shown():
        yield Bar()
        return
    columns = (
        TextColumn("{task.description}", table_column=Column(ratio=2, no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        MofNCompleteColumn(),
        _Rate(unit),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    # What consoles print meanwhile goes above the bar, if it goes to the terminal.
    with Progress(*columns, console=console, transient=True, expand=True, redirect_stdout=sys.stdout.isatty()) as shown:
        yield Bar(shown, planned)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says within the block what the program waits for, if there is a terminal."""
    if not is_shown():
        yield
        return
    with new_console(stderr=True).status(escape(what)):
        yield


class _Rate(ProgressColumn):
    """How many a second."""

    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{rate(speed)} {self._unit}/s" if speed else "", "cyan")


def is_shown() -> bool:
    """Says whether a bar has a place where it disturbs nobody."""
    is_terminal = sys.stderr.isatty() and not new_console(stderr=True).is_dumb_terminal
    return is_terminal and not wants_json() and not _is_piped()


def _is_piped() -> bool:
    """Says whether another program reads the output: it may print on the same terminal."""
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False
