"""`aclgrad bench`: turns flags into a load, and shows the results on a terminal and in files."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from rich.live import Live
from rich.table import Table

from aclgrad._client.aio.client import AsyncClient
from aclgrad._client.sync.client import Client
from aclgrad.commands.common import FAILED, INTERRUPTED, connection, exit_codes, fail, print_json
from aclgrad.commands.load import Measured, Send, closed_loop, open_loop
from aclgrad.commands.programs import read_program
from aclgrad.judge.findings.charts import Axis, chart, curve
from aclgrad.judge.programs.program import Program, Returned, work_of
from aclgrad.judge.programs.sending import add_steps
from aclgrad.new_files import check_unwritten, checked_folder
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from aclgrad.tables import new_console
from aclgrad.tables import table as columns
from aclgrad.units import counted

_REDRAW_S: Final = 0.25
_POINTS: Final = 100
"""Of a curve."""
_ASKED: Final = ("target", "callers", "rate", "seconds", "timeout_s")
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
    seconds: float
    timeout_s: float
    plot: Path | None
    force: bool
    as_json: bool


def bench(options: Options) -> None:
    """Runs the load and reports it, even if Ctrl-C ended it early."""
    with exit_codes("bench"):
        if options.plot is not None and options.plot.suffix != ".svg":
            raise ValueError(f"{options.plot} would hold SVG; end it with .svg")
        if options.plot is not None:
            checked_folder(options.plot)
            check_unwritten(options.plot, overwrite=options.force)
        called = _called(options)
        measured = Measured()
        is_complete = False
        # After Ctrl-C asyncio cancels the load, which ends its calls, and then raises.
        with suppress(KeyboardInterrupt):
            asyncio.run(_run(called, options, measured))
            is_complete = True
        _report(options, called, measured, is_complete)
    has_measured = measured.milliseconds and not measured.failed
    sys.exit(INTERRUPTED if not is_complete else 0 if has_measured else FAILED)


@dataclass(frozen=True, slots=True)
class _Called:
    """What is called: its name and how many steps it has, what JSON says of it, and how a client makes it ready.

    `operations` are the floating-point ones of matrix products, 0 if it has none.
    """

    name: str
    steps: int
    operations: float
    about: Mapping[str, Any]
    sender: Callable[[AsyncClient], Send]


def _called(options: Options) -> _Called:
    if options.program is not None:
        program, returned = read_program(options.program)
        named = {"program": str(options.program), "steps": len(program.steps)}
        sender = partial(_program_sender, program, returned)
        operations = sum(work_of(each).matrix_operations for each in program.steps)
        return _Called(program.title, len(program.steps), operations, named, sender)
    with Client.from_env(**connection(options.target)) as client:
        typed = _case(client, options)
    named = {"operator": options.operator, "dtype": typed.dtype, "size": options.size}
    operations = typed.spec.matrix_operations(typed.arguments)
    return _Called(str(typed), 1, operations, named, partial(_case_sender, typed))


def _case(client: Client, options: Options) -> TypedCase:
    """Returns the call to make, with the requested dtype or the server's first."""
    product = Product(client.server_status().product)
    spec = OPERATORS[options.operator]
    dtypes = spec.dtypes_on(product)
    if options.dtype is not None and options.dtype not in dtypes:
        raise ValueError(f"{spec.name} on {product} takes {', '.join(dtypes) or 'no dtype'}, not {options.dtype}")
    if not dtypes:
        raise ValueError(f"product {product} has no {spec.name}")
    return TypedCase(spec, samples_of(spec.name).timed[options.size], options.dtype or dtypes[0])


def _case_sender(typed: TypedCase, client: AsyncClient) -> Send:
    return partial(client.execute, typed.spec.name, typed.arrays(), typed.attributes)


def _program_sender(program: Program, returned: Sequence[Returned], client: AsyncClient) -> Send:
    built = client.program()
    return partial(built.run, *add_steps(program, built, returned))


async def _run(called: _Called, options: Options, measured: Measured) -> None:
    # Without retries, which would hide the server's refusals; but another server takes over from one that is silent.
    settings: dict[str, Any] = {"timeout_s": options.timeout_s, "on_call": measured.note, "retries": 0}
    async with AsyncClient.from_env(options.target, **settings) as client:
        send = called.sender(client)
        await send()  # connects, and learns which values the server reads
        view = asyncio.ensure_future(_show(measured, called)) if not options.as_json else None
        try:
            if options.rate is None:
                await closed_loop(send, options.callers, options.seconds, measured)
            else:
                await open_loop(send, options.rate, options.seconds, measured)
        finally:
            if view is not None:
                view.cancel()
                with suppress(asyncio.CancelledError):
                    await view


async def _show(measured: Measured, called: _Called) -> None:
    """Redraws the figures on a terminal; elsewhere nothing is shown before the end."""
    console = new_console(stderr=True)
    if not console.is_terminal:
        return
    with Live(_table(measured, called), console=console, transient=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(_REDRAW_S)
            live.update(_table(measured, called), refresh=True)


def _table(measured: Measured, called: _Called) -> Table:
    figures = {
        "calls": str(measured.answered),
        "calls/s": f"{measured.rate:.0f}",
        **({"steps/s": f"{measured.rate * called.steps:.0f}"} if called.steps > 1 else {}),
        **({"GFLOP/s": f"{measured.rate * called.operations / 1e9:.3g}"} if called.operations else {}),
        "failed": str(measured.failed),
        "retries": str(measured.retries),
        **{f"{name} ms": f"{value:.2f}" for name, value in measured.percentiles().items()},
    }
    table = columns("", *figures)
    table.add_row(*figures.values())
    return table


def _report(options: Options, called: _Called, measured: Measured, is_complete: bool) -> None:
    if options.plot is not None and measured.milliseconds:
        options.plot.write_text(_latency_plot(called.name, measured.milliseconds), encoding="utf-8")
    if options.as_json:
        print_json(
            {
                **{name: getattr(options, name) for name in _ASKED},
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
        fail("bench", "interrupted; the report is partial", INTERRUPTED)


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
