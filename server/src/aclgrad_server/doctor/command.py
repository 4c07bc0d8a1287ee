"""The command line of the doctor: examinations to rows, and rows to lines or JSON and an exit code."""

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from aclgrad.check.rows import Finding, Origin, Row, Verdict
from aclgrad.products import product_of_soc
from aclgrad_server.cli import main as server_command
from aclgrad_server.devices import native
from aclgrad_server.doctor import card, clock, configuration, container, libraries, live, machine, security, workers
from aclgrad_server.doctor.abi import Abi, AbiError
from aclgrad_server.doctor.subject import Examination, Found, Subject, bad, in_time
from aclgrad_server.probe import connectable
from aclgrad_server.settings import Settings, UnusableSettingsError, given_flags, read_settings

EXAMINATIONS: Final[tuple[Examination, ...]] = (
    configuration.settings,
    security.security,
    clock.clock,
    configuration.variables,
    configuration.containers,
    libraries.versions,
    libraries.libraries,
    machine.nodes,
    workers.workers,
    machine.memory,
    machine.limits,
    container.container,
    machine.addresses,
)
_BAD: Final = 1
_INTERRUPTED: Final = 130
_COLOURS: Final = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.NOTED: "yellow", Verdict.SKIPPED: "white"}


@click.command(context_settings={"max_content_width": 120})
@click.option(
    "--device", "with_device", is_flag=True, help="Also open the devices and see what they do; alone on them."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON line for each row, and a last one with the summary."
)
@click.option(
    "--admin", metavar="HOST:PORT", help="Examine the running server whose --admin this is, and nothing else."
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def main(with_device: bool, as_json: bool, admin: str | None, flags: tuple[str, ...]) -> None:
    """Say what would keep a server with these FLAGS from running here: aclgrad-server doctor -- --streams 8.

    With --admin, say what a running server suffers from, the worst first: aclgrad-server doctor --admin 127.0.0.1:9464.

    Each row says what was found and, unless that is fine, what to do. Exits with 0 if no row failed, 1 if one did,
    2 after wrong usage.
    """
    if admin is not None and (with_device or flags):
        raise click.UsageError("--admin examines a running server as it is; give neither --device nor FLAGS with it")
    given = given_flags(server_command.make_context("aclgrad-server", list(flags)).params)
    # What the server would log is in the rows.
    logging.getLogger().addHandler(logging.NullHandler())
    rows = []
    try:
        for row in _rows(given, with_device) if admin is None else _live_rows(admin):
            rows.append(row)
            _print(json.dumps(row.to_json()) if as_json else _line(row))
    except KeyboardInterrupt:
        click.echo("aclgrad-server doctor: interrupted", err=True)
        os._exit(_INTERRUPTED)
    failed = sum(row.verdict is Verdict.FAILED for row in rows)
    exit_code = _BAD if failed else 0
    counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
    if as_json:
        click.echo(json.dumps({"summary": {"exit_code": exit_code, "rows": len(rows), **counts}}))
    else:
        click.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    sys.stdout.flush()
    # A driver may have threads that would keep the interpreter from ending.
    os._exit(exit_code)


def _print(line: str) -> None:
    try:
        click.echo(line)
    except BrokenPipeError:
        raise  # click ends the program without a word
    except OSError as error:
        raise click.ClickException(f"the rows cannot be written: {error.strerror or error}") from error


def _rows(given: Mapping[str, Any], with_device: bool) -> Iterator[Row]:
    """Yields every row, each as soon as it is known."""
    here = Origin(socket.gethostname(), "", "", "")
    try:
        settings = read_settings(given)
    except UnusableSettingsError as error:
        yield from _timed(here, "settings", iter([("", bad(line, "see aclgrad-server --help")) for line in error.args]))
        return
    files = native.library_files(settings.backend)
    is_ascend = any("libascendcl" in path for path, _ in files)
    cards = workers.cards_of(settings, os.environ, is_ascend)
    subject = Subject(settings, given, os.environ, is_ascend, cards)
    for examination in EXAMINATIONS:
        yield from _timed(here, examination.__name__, _whatever_happens(examination(subject)))
    if with_device:
        yield from _device_rows(here.target, settings, files)


def _live_rows(admin: str) -> Iterator[Row]:
    """Yields every row of a running server."""
    try:
        address = connectable(admin)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    origin, found = live.examine(address)
    for topic, each in found:
        yield from _timed(origin, topic, iter([each]))


def _whatever_happens(found: Iterator[Found]) -> Iterator[Found]:
    """Yields findings, and one more if an odd machine makes the examination fail: the others are worth knowing."""
    try:
        yield from found
    except Exception as error:
        yield "", bad(f"cannot be examined: {error!r}", "run as the user of the server, or report it")


def _device_rows(target: str, settings: Settings, files: list[tuple[str, bool]]) -> Iterator[Row]:
    """Yields what the devices do; ends with a row of its own if they do not work, or a driver hangs."""
    library, limit_s = os.path.basename(files[0][0]), settings.hang_timeout_s
    origin = Origin(target, "", library, "")

    def failure(problem: str) -> Iterator[Row]:
        remedy = "see npu-smi info, CANN's log and the file of --acl-config"
        return _timed(origin, "device", iter([("", bad(problem, remedy))]))

    try:
        abi = Abi(files)
        yield from in_time(_examined(abi, settings, target, library), limit_s)
    except TimeoutError:
        yield from failure(f"{abi.calling} has not returned within {limit_s:g} s (--hang-timeout-s)")
    except Exception as error:
        yield from failure(str(error) if isinstance(error, AbiError | OSError) else repr(error))


def _examined(abi: Abi, settings: Settings, target: str, library: str) -> Iterator[Row]:
    abi.call("aclInit", os.fsencode(settings.acl_config) if settings.acl_config else None)
    origin = Origin(target, product_of_soc(abi.soc_name) or abi.soc_name, library, abi.version)
    for index in settings.device or range(abi.device_count()):
        with _opened(abi, index) as finding:
            yield from _timed(origin, "device", iter([(f"device {index}", finding)]))
            for examination in card.EXAMINATIONS:
                found = ((f"device {index}: {case}", finding) for case, finding in examination(abi))
                yield from _timed(origin, examination.__name__, found)
    abi.call("aclFinalize")


@contextmanager
def _opened(abi: Abi, index: int) -> Iterator[Finding]:
    yield card.opened(abi, index)
    abi.call("aclrtResetDevice", index)


def _timed(origin: Origin, topic: str, found: Iterator[Found]) -> Iterator[Row]:
    """Yields the rows of one topic, with the time that each took."""
    begin = time.monotonic()
    for case, finding in found:
        seconds = time.monotonic() - begin
        yield Row(origin, topic, "", "", (), case, finding.verdict, finding.message, finding.figures, seconds)
        begin = time.monotonic()


def _line(row: Row) -> str:
    verdict = click.style(f"{row.verdict:8}", fg=_COLOURS[row.verdict])
    return f"{verdict}{': '.join(part for part in (row.check, row.case, row.message) if part)}"
