"""The command line of the doctor: examinations to rows, and rows to lines or JSON and an exit code."""

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from aclgrad.check.rows import Origin, Row, Verdict
from aclgrad_server.cli import main as server_command
from aclgrad_server.devices import native
from aclgrad_server.doctor import configuration, container, libraries, machine
from aclgrad_server.doctor.device import device
from aclgrad_server.doctor.start import start
from aclgrad_server.doctor.subject import Examination, Found, Subject, bad
from aclgrad_server.settings import UnusableSettingsError, given_flags, read_settings

EXAMINATIONS: Final[tuple[Examination, ...]] = (
    configuration.settings,
    start,
    configuration.variables,
    libraries.versions,
    libraries.libraries,
    machine.nodes,
    container.container,
)
_BAD: Final = 1
_INTERRUPTED: Final = 130
_COLOURS: Final = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.NOTED: "yellow", Verdict.SKIPPED: "white"}


@click.command(context_settings={"max_content_width": 120})
@click.option("--device", "with_device", is_flag=True, help="Also open the devices and test them; alone on them.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON line for each row, and a last one with the summary."
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def main(with_device: bool, as_json: bool, flags: tuple[str, ...]) -> None:
    """Say what would keep a server with these FLAGS from running here: aclgrad-server doctor -- --streams 8.

    Each row says what was found and, unless that is fine, what to do. Exits with 0 if no row failed, 1 if one did,
    2 after wrong usage. What a running server suffers from is on its status page, and `aclgrad status` says it.
    """
    given = given_flags(server_command.make_context("aclgrad-server", list(flags)).params)
    # What the server would log is in the rows.
    logging.getLogger().addHandler(logging.NullHandler())
    rows = []
    try:
        for row in _rows(given, with_device):
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
    is_ascend = any("libascendcl" in path for path, _ in native.library_files(settings.backend))
    subject = Subject(settings, given, os.environ, is_ascend, machine.cards_of(settings, os.environ, is_ascend))
    for examination in (*EXAMINATIONS, device) if with_device else EXAMINATIONS:
        yield from _timed(here, examination.__name__, _whatever_happens(examination(subject)))


def _whatever_happens(found: Iterator[Found]) -> Iterator[Found]:
    """Yields findings, and one more if an odd machine makes the examination fail: the others are worth knowing."""
    try:
        yield from found
    except Exception as error:
        yield "", bad(f"cannot be examined: {error!r}", "run as the user of the server, or report it")


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
