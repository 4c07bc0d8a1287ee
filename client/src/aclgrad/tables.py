"""Tables on a terminal, and the console that shows them."""

from rich.console import Console
from rich.table import Table


def table(texts: str, *figures: str) -> Table:
    """Returns an empty table with these headings; figures are right-aligned.

    It has no lines, to save space; long texts wrap within their cells.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in texts.split():
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def new_console(*, stderr: bool = False) -> Console:
    """Returns the console of commands, without emoji: `:100:` may be part of an address or a path."""
    return Console(stderr=stderr, emoji=False)
