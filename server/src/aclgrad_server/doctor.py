"""`aclgrad-server doctor`: what keeps a server from starting here, and with `--device` what its devices compute."""

import asyncio
import json
import logging
import multiprocessing
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import click

from aclgrad.judgement.rows import Finding, Origin, Row, Verdict
from aclgrad.units import counted
from aclgrad_server.access.identities import read_identities
from aclgrad_server.admin.listener import check_address
from aclgrad_server.cann_environment import examine
from aclgrad_server.cli import main as server_command
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.library import runtime_file
from aclgrad_server.devices.opening import check_streams, open_device, product_of
from aclgrad_server.devices.probing import probe
from aclgrad_server.devices.self_test import self_test
from aclgrad_server.devices.visible import VISIBLE
from aclgrad_server.edge.connections import check_socket
from aclgrad_server.edge.process import FILES_OF_WORKER, check_memory, check_open_files, memory_limit
from aclgrad_server.edge.tls import open_certificates
from aclgrad_server.exits import StartError
from aclgrad_server.files import UnusableFileError
from aclgrad_server.listen_addresses import UNIX, dangers
from aclgrad_server.place import share_of
from aclgrad_server.settings import (
    OFF,
    Settings,
    UnusableSettingsError,
    as_text,
    given_flags,
    read_settings,
    source_of,
    unknown_variables,
)
from aclgrad_server.supervisor.addresses import hold
from aclgrad_server.supervisor.cards import Runtime, ask_runtime, probes_in_child, workers_of

Found = Iterable[tuple[str, Finding]]
"""Names of things, and what was found of each."""

_SETTINGS: Final = "settings"
_DAY_S: Final = 86400
_INTERRUPTED: Final = 130
_COLOURS: Final = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.NOTED: "yellow"}
_DEFAULT: Final = "default"
_SEE_CARD: Final = "see npu-smi info, CANN's log and the file of --acl-config"
_NORMAL: Final = "on an idle Atlas A2 or A3 2.8 to 3.4 of 64"
_TEXT: Final = 1500


@click.command(context_settings={"max_content_width": 120})
@click.option("--device", "with_device", is_flag=True, help="Also open the devices and test them; alone on them.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON line for each row, and a last one with the summary."
)
@click.option("-v", "--verbose", is_flag=True, help="Also show settings that have their default.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def main(with_device: bool, as_json: bool, verbose: bool, flags: tuple[str, ...]) -> None:
    """Say what would keep a server with these FLAGS from starting here: aclgrad-server doctor -- --streams 8.

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
            if as_json:
                _print(json.dumps(row.to_json()))
            elif verbose or not _is_default(row):
                _print(_line(row))
    except KeyboardInterrupt:
        click.echo("aclgrad-server doctor: interrupted", err=True)
        os._exit(_INTERRUPTED)
    exit_code = int(any(row.verdict is Verdict.FAILED for row in rows))
    counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
    if as_json:
        _print(json.dumps({"summary": {"exit_code": exit_code, "rows": len(rows), **counts}}))
    else:
        hidden = 0 if verbose else sum(map(_is_default, rows))
        more = f"; --verbose shows {hidden} settings that have their default" if hidden else ""
        _print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) + more)
    if sys.stdout is not None:
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


def _line(row: Row) -> str:
    verdict = click.style(f"{row.verdict:8}", fg=_COLOURS[row.verdict])
    return f"{verdict}{': '.join(part for part in (row.check, row.case, row.message) if part)}"


def _is_default(row: Row) -> bool:
    return (row.check, row.verdict) == (_SETTINGS, Verdict.PASSED) and row.message.endswith(f" ({_DEFAULT})")


def _rows(given: Mapping[str, Any], with_device: bool) -> Iterator[Row]:
    """Yields every row as soon as it is known, with the time that it took."""
    here = Origin(socket.gethostname(), "", "", "")
    for topic, found in _examinations(given, with_device):
        begin = time.monotonic()
        for case, finding in found:
            seconds = time.monotonic() - begin
            yield Row(here, topic, "", "", (), case, finding.verdict, finding.message, finding.figures, seconds)
            begin = time.monotonic()


def _examinations(given: Mapping[str, Any], with_device: bool) -> Iterator[tuple[str, Found]]:
    try:
        settings = read_settings(given)
    except UnusableSettingsError as error:
        yield _SETTINGS, [("", _bad(line, "see aclgrad-server --help")) for line in error.args]
        return
    yield _SETTINGS, of_settings(settings, given, os.environ)
    # Once: a library that hangs takes its whole limit.
    runtime = ask_runtime(settings)
    cards = workers_of(settings, lambda: runtime)
    yield "start", of_start(settings, len(cards), runtime)
    if with_device:
        yield "device", _of_devices(settings, cards, probes_in_child(settings, lambda: runtime))
    # Last, because its log may say why the library or a device failed.
    yield "CANN", examine(os.environ, runtime.host_pointers)


def of_settings(settings: Settings, given: Mapping[str, Any], environment: Mapping[str, str]) -> Found:
    """Yields every setting with its value and source."""
    for name in unknown_variables(environment):
        yield name, _bad("is not a setting of the server", "unset it, or see aclgrad-server --help")
    for name, value in settings:
        in_file = str(settings.config) if name in settings.model_fields_set else _DEFAULT
        yield name, _fine(f"{as_text(value) or 'none'} ({source_of(name, given, environment) or in_file})")


def of_start(settings: Settings, worker_count: int, runtime: Runtime) -> Found:
    """Yields what a start would refuse or warn of: back end, memory, the files of TLS and identities, and listeners."""

    count = runtime.count

    def backend() -> str:
        if count is None:
            raise StartError(runtime.problem)
        if missing := [index for index in settings.device or (0,) if not 0 <= index < count]:
            raise StartError(f"there is no device {missing[0]}: the runtime shows {count}; see --device and {VISIBLE}")
        return f"{runtime_file(settings.backend)} shows {counted(count, 'device')}"

    def streams() -> str:
        on_card = -(-worker_count // len(settings.device or range(count or 1)))
        return check_streams(runtime.soc_name, share_of(settings.streams, on_card), on_card)

    def listeners() -> str:
        hold(settings.listen, worker_count if worker_count > 1 else 0).close()
        for address in settings.listen:
            if address.startswith(UNIX):
                check_socket(address, settings.unix_socket_group)
        return f"free: {' '.join(settings.listen)}"

    def admin() -> str:
        if settings.admin == OFF:
            return OFF
        check_address(settings.admin)
        return f"free: {settings.admin}"

    def memory() -> str:
        check_memory(settings.memory_limit_bytes, worker_count)
        limit = memory_limit(settings.memory_limit_bytes)
        share = share_of(limit, worker_count) / 2**20
        each = f", {share:.0f} for each of {worker_count} workers" if worker_count > 1 else ""
        return f"{limit / 2**20:.0f} MiB{each}"

    def open_files() -> str:
        return f"at most {check_open_files(FILES_OF_WORKER * worker_count if worker_count > 1 else 1)}"

    def certificate() -> str:
        if (made := open_certificates(settings)) is None:
            return "no TLS"
        names, days = ", ".join(made.names) or "no name", (made.expires_at - time.time()) / _DAY_S
        return f"fits its key; for {names}, valid for {days:.0f} days"

    def identities() -> str:
        if settings.identities is None:
            return "everybody may call"
        read_identities(settings.identities)
        return f"{settings.identities} can be used"

    checks = {
        "--backend": backend,
        "--listen": listeners,
        "--admin": admin,
        "memory": memory,
        "open files": open_files,
        "--tls-certificate": certificate,
        "--identities": identities,
    }
    if count:
        checks["--streams"] = streams
    for name, check in checks.items():
        try:
            yield name, _fine(check())
        except (StartError, UnusableFileError) as error:
            yield name, _bad(str(error), "the server would not start")
    for danger in dangers(settings.listen, *map(bool, (settings.tls_key, settings.tls_client_ca, settings.identities))):
        yield "network", Finding(Verdict.NOTED, danger)


def _of_devices(settings: Settings, cards: Sequence[int], probes: bool) -> Found:
    """Yields of each device whether it opens and passes the self-test, in a process of its own: a driver may hang."""
    # Each process sees one device; a fork would have our threads' locks.
    context = multiprocessing.get_context("spawn")
    for index, on_card in Counter(cards).items():
        receiver, sender = context.Pipe(duplex=False)
        own = settings.model_copy(update={"device": (index,), "streams": share_of(settings.streams, on_card)})
        process = context.Process(target=_examine, args=(own, on_card, probes, sender))
        process.start()
        sender.close()
        try:
            yield f"device {index}", receiver.recv()
        except EOFError:
            process.join()
            yield f"device {index}", _bad(f"the process that opened it ended with {process.exitcode}", _SEE_CARD)
        finally:
            process.kill()


def _examine(settings: Settings, on_card: int, probes: bool, sender: Connection) -> None:
    logging.getLogger().addHandler(logging.NullHandler())

    async def examine() -> None:
        # Sent before the loop ends: that would wait for a thread that a driver keeps.
        sender.send(await _opened_and_tested(settings, on_card, probes))

    asyncio.run(examine())


async def _opened_and_tested(settings: Settings, on_card: int, probes: bool) -> Finding:
    try:
        probed = await probe(settings, on_card) if probes else None
        _, device = await open_device(settings, Completions(), lambda *_: None, on_card)
        off = await self_test(device, product_of(device.soc_name), settings.hang_timeout_s, probed)
    except StartError as error:
        return Finding(Verdict.FAILED, str(error))
    except UnfitDeviceError as error:
        return _bad(str(error), _SEE_CARD)
    if failed := [f"{each.name}: {each.reason}" for each in off.messages()]:
        return _bad(f"it fails {', '.join(failed)}", "see `aclgrad check`")
    return _fine(f"{device.soc_name} opens and passes the self-test; {await _memory_of(device)}")


async def _memory_of(device: Device) -> str:
    """Says how much of the device's memory is in use, apart from our pool."""
    sample = await device.take_sample()
    used = max(0, sample.total_bytes - sample.free_bytes - sample.pool.reserved_bytes)
    return f"without its own pool {used / 2**30:.1f} of {sample.total_bytes / 2**30:.1f} GiB are in use ({_NORMAL})"


def _fine(message: str) -> Finding:
    return Finding(Verdict.PASSED, message)


def _bad(problem: str, remedy: str) -> Finding:
    # The first text of a card names the cause, and a block for each of its cores may follow.
    short = problem if len(problem) <= _TEXT else f"{problem[:_TEXT]} ..."
    return Finding(Verdict.FAILED, f"{short}; {remedy}")
