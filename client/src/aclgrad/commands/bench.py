"""`aclgrad bench`: turns flags into a load, and shows the results on a terminal and in files."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from rich.table import Table

from aclgrad._client.aio.client import AsyncClient
from aclgrad._client.sync.client import Client
from aclgrad.commands.bar import bar, figures
from aclgrad.commands.bench_report import FIGURES, PAGE, find_promises, report_folder, write_report
from aclgrad.commands.called import Called, operator_called, program_called, ten_steps_called
from aclgrad.commands.common import connection
from aclgrad.commands.load import Measured, closed_loop, open_loop
from aclgrad.descriptions.status import ServerStatus
from aclgrad.exit_codes import ExitCode
from aclgrad.exits import exit_codes, fail, print_json
from aclgrad.judge.findings.charts import Axis, chart, curve
from aclgrad.new_files import check_unwritten, checked_folder
from aclgrad.products import Product
from aclgrad.progress import waiting
from aclgrad.tables import new_console
from aclgrad.tables import table as columns
from aclgrad.units import counted

LOAD_S: Final = 10.0
PROBE_S: Final = 3.0
"""Of each rate of a report."""
_POINTS: Final = 100
"""Of a curve."""
_ASKED: Final = ("target", "callers", "rate", "timeout_s")
"""The options that JSON repeats."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say."""

    target: str
    operator: str
    dtype: str | None
    size: str
    program: Path | None
    callers: int
    rate: float | None
    seconds: float | None
    timeout_s: float
    plot: Path | None
    report: Path | None
    p99_ms: float
    force: bool
    as_json: bool


def bench(options: Options) -> None:
    """Runs the load and reports it, even if Ctrl-C ended it early."""
    with exit_codes("bench"):
        sys.exit(_measured(options) if options.report is None else _reported(options, options.report))


def _measured(options: Options) -> int:
    """Runs one load; returns the exit code."""
    if options.plot is not None and options.plot.suffix != ".svg":
        raise ValueError(f"{options.plot} would hold SVG; end it with .svg")
    if options.plot is not None:
        checked_folder(options.plot)
        check_unwritten(options.plot, overwrite=options.force)
    (called,) = _called(options)
    measured = Measured()
    is_complete = False
    # After Ctrl-C asyncio cancels the load, which ends its calls, and then raises.
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(called, options, measured))
        is_complete = True
    _show(options, called, measured, is_complete)
    has_measured = measured.milliseconds and not measured.failed
    return ExitCode.INTERRUPTED if not is_complete else 0 if has_measured else ExitCode.WRONG


def _reported(options: Options, folder: Path) -> int:
    """Searches for what may be promised, and writes the page; returns the exit code."""
    with report_folder(folder, overwrite=options.force):
        status, called = _status(options), _called(options)
        seconds = options.seconds or PROBE_S
        searches, early = find_promises(options.target, called, options.p99_ms, seconds, options.timeout_s)
        if any(each.probes for each in searches):
            found = write_report(folder, options.target, status, called, searches, early)
            if options.as_json:
                print_json(found)
            else:
                click.echo(found["headline"])
                click.echo(f"the page is {folder / PAGE}, with its figures in {FIGURES}")
    if early:
        fail("bench", f"{early.why}; the report is partial", early.exit_code)
    return 0 if all(each.promised for each in searches) else ExitCode.WRONG


def _called(options: Options) -> list[Called]:
    """Returns what the flags say; a report of an operator has a program of ten steps as well."""
    if options.program is not None:
        return [program_called(options.program)]
    product = Product(_status(options).product)
    called = [operator_called(product, options.operator, options.dtype, options.size)]
    return called if options.report is None else [*called, ten_steps_called(product)]


def _status(options: Options) -> ServerStatus:
    with Client.from_env(**connection(options.target)) as client, waiting(f"waiting for {options.target}"):
        return client.server_status()


async def _run(called: Called, options: Options, measured: Measured) -> None:
    # Without retries, which would hide the server's refusals; but another server takes over from one that is silent.
    settings: dict[str, Any] = {"timeout_s": options.timeout_s, "on_call": measured.note, "retries": 0}
    async with AsyncClient.from_env(**connection(options.target), **settings) as client:
        send = called.sender(client)
        with waiting(f"waiting for {options.target}"):
            await send()  # connects, and learns which values the server reads
        seconds = options.seconds or LOAD_S
        async with bar(seconds, lambda: figures(measured)):
            if options.rate is None:
                await closed_loop(send, options.callers, seconds, measured)
            else:
                await open_loop(send, options.rate, seconds, measured)


def _table(measured: Measured, called: Called) -> Table:
    cells = {
        "calls": str(measured.answered),
        "calls/s": f"{measured.rate:.0f}",
        **({"steps/s": f"{measured.rate * called.steps:.0f}"} if called.steps > 1 else {}),
        **({"GFLOP/s": f"{measured.rate * called.operations / 1e9:.3g}"} if called.operations else {}),
        "failed": str(measured.failed),
        "retries": str(measured.retries),
        **{f"{name} ms": f"{value:.2f}" for name, value in measured.percentiles().items()},
    }
    table = columns("", *cells)
    table.add_row(*cells.values())
    return table


def _show(options: Options, called: Called, measured: Measured, is_complete: bool) -> None:
    if options.plot is not None and measured.milliseconds:
        options.plot.write_text(_latency_plot(called.name, measured.milliseconds), encoding="utf-8")
    if options.as_json:
        print_json(
            {
                **{name: getattr(options, name) for name in _ASKED},
                "seconds": options.seconds or LOAD_S,
                **called.about,
                "complete": is_complete,
                "seconds_measured": measured.seconds,
                "answered": measured.answered,
                "retries": measured.retries,
                "retry_budget": measured.retry_budget,
                "calls_per_s": measured.rate,
                "steps_per_s": measured.rate * called.steps,
                "flop_per_s": measured.rate * called.operations if called.operations else None,
                "milliseconds": measured.percentiles(),
                "errors": dict(measured.errors),
            }
        )
    else:
        new_console().print(_table(measured, called))
        for reason, count in measured.errors.most_common():
            click.echo(f"{counted(count, 'call')} failed: {reason}")
    if not is_complete:
        fail("bench", "interrupted; the report is partial", ExitCode.INTERRUPTED)


def _latency_plot(title: str, milliseconds: Sequence[float]) -> str:
    """Returns an SVG file of the times that the slowest tenth, hundredth and so on of the calls took.

    Its axes are logarithmic; 10 on the lower one is p90, 100 is p99, and so on up to the slowest call.
    """
    slowest_of = np.geomspace(1, max(2, len(milliseconds)), _POINTS)
    values = np.percentile(milliseconds, 100 * (1 - 1 / slowest_of), method="higher")
    points = [(float(x), max(float(y), 1e-3)) for x, y in zip(slowest_of, values, strict=True)]
    axes = (
        Axis.over("one call of so many took at least", [x for x, _ in points]),
        Axis.over("ms", [y for _, y in points]),
    )
    drawing = chart(title, axes, {"time of a call": points}, curve)
    style = "<style>text{font:11px sans-serif}.grid{stroke:#8884}svg{background:#fff}</style>"
    head, _, rest = drawing.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{style}{rest}'
