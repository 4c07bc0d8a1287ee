"""The bar of a load that runs: the time gone of the time planned, and what was measured so far."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from rich.progress import BarColumn, Progress, TextColumn

from aclgrad.commands.load import Measured
from aclgrad.progress import is_shown
from aclgrad.tables import new_console

_REDRAW_S: Final = 0.25


@asynccontextmanager
async def bar(planned_s: float, told: Callable[[], str]) -> AsyncIterator[None]:
    """Shows the bar within the block, if there is a place for it."""
    if not is_shown():
        yield
        return
    columns = (
        BarColumn(20),
        TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=new_console(stderr=True), transient=True) as progress:
        drawing = asyncio.ensure_future(_draw(progress, planned_s, told))
        try:
            yield
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing


def figures(measured: Measured) -> str:
    """Returns the rate so far, p99 and the failures."""
    times = measured.percentiles()
    failed = f", {measured.failed} failed" if measured.failed else ""
    return f"{measured.rate:,.0f} calls/s" + (f", p99 {times['p99']:.1f} ms" if times else "") + failed


async def _draw(progress: Progress, planned_s: float, told: Callable[[], str]) -> None:
    task = progress.add_task("", total=planned_s)
    now = asyncio.get_running_loop().time
    start = now()
    while True:
        took = now() - start
        # The end is moved if it takes longer than planned.
        progress.update(task, completed=took, total=max(planned_s, took), description=told())
        await asyncio.sleep(_REDRAW_S)
