"""Tables on a terminal, and the console that shows them."""

from rich.console import Console
from rich.table import Table


def table(texts: str, *figures: str) -> Table:
    """Returns an empty table with these headings; figures stand at the right of their columns.

    Without lines, more fits into a terminal. What does not fit goes on in the next line of its cell.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in texts.split():
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def new_console(*, stderr: bool = False) -> Console:
    """Returns what commands print by. Rich would make an emoji of `:100:`, which may stand in an address or a path."""
    return Console(stderr=stderr, emoji=False)
