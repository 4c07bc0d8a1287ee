"""`aclgrad-server doctor`: what keeps a server from starting here, and with `--device` what its devices compute."""

import asyncio
import logging
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import click

from aclgrad.diagnosis import Row, failed, noted, passed, report
from aclgrad.units import counted
from aclgrad_server.access.identities import read_identities
from aclgrad_server.admin.listener import check_address
from aclgrad_server.cann_environment import examine
from aclgrad_server.cli import main as server_command
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.library import runtime_file
from aclgrad_server.devices.opening import VISIBLE, check_streams, open_device, product_of
from aclgrad_server.devices.probing import probe
from aclgrad_server.devices.self_test import self_test
from aclgrad_server.edge.process import FILES_OF_WORKER, check_memory, check_open_files
from aclgrad_server.edge.tls import open_certificates
from aclgrad_server.exits import StartError, leave
from aclgrad_server.listen_addresses import dangers
from aclgrad_server.place import share_of
from aclgrad_server.settings import (
    OFF,
    Settings,
    UnusableSettingsError,
    changed_settings,
    given_flags,
    read_settings,
    source_of,
    unknown_variables,
)
from aclgrad_server.supervisor.addresses import Addresses
from aclgrad_server.supervisor.cards import Runtime, ask_runtime, probes_in_child, workers_of

_INTERRUPTED: Final = 130
_NO_START: Final = "the server would not start"
_SEE_CARD: Final = "see npu-smi info, CANN's log and the file of --acl-config"
_NORMAL: Final = "on an idle Atlas A2 or A3 2.8 to 3.4 of 64"
_TEXT: Final = 1500


@click.command(context_settings={"max_content_width": 120})
@click.option("--device", "with_device", is_flag=True, help="Also open the devices and test them; alone on them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def main(with_device: bool, as_json: bool, flags: tuple[str, ...]) -> None:
    """Say what would keep a server with these FLAGS from starting here: aclgrad-server doctor -- --streams 8.

    Each row says what was found and, unless that is fine, what to do. Exits with 0 if no row failed, 1 if one did,
    2 after wrong usage. What a running server suffers from is on its status page, and `aclgrad status` says it.
    """
    given = given_flags(server_command.make_context("aclgrad-server", list(flags)).params)
    # The rows have what the server would log.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        exit_code = report(_rows(given, with_device), as_json)
    except KeyboardInterrupt:
        click.echo("aclgrad-server doctor: interrupted", err=True)
        exit_code = _INTERRUPTED
    except BrokenPipeError:
        raise  # click would end the program silently
    except OSError as error:
        raise click.ClickException(f"the rows cannot be written: {error.strerror or error}") from error
    # A driver may have threads that would keep the interpreter from ending.
    leave(exit_code)


def _rows(given: Mapping[str, Any], with_device: bool) -> Iterator[Row]:
    try:
        settings = read_settings(given)
    except UnusableSettingsError as error:
        yield from (failed("settings", line, "see aclgrad-server --help") for line in error.args)
        return
    yield from of_settings(settings, given, os.environ)
    # Once: a hung library takes its whole limit.
    runtime = ask_runtime(settings)
    cards = workers_of(settings, lambda: runtime)
    yield from of_start(settings, len(cards), runtime)
    if with_device:
        yield from _of_devices(settings, cards, probes_in_child(settings, lambda: runtime))
    # Last, because its log may say why the library or a device failed.
    yield from examine(os.environ, runtime.host_pointers)


def of_settings(settings: Settings, given: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Row]:
    """Yields the settings that differ from their defaults, each with its source."""
    for name in unknown_variables(environment):
        yield failed(name, "is not a setting of the server", "unset it, or see aclgrad-server --help")
    for name, text in changed_settings(settings).items():
        yield passed(f"settings: {name}", f"{text} ({source_of(name, given, environment) or settings.config})")


def of_start(settings: Settings, worker_count: int, runtime: Runtime) -> Iterator[Row]:
    """Yields everything that a start would refuse or warn of."""
    on_card = -(-worker_count // len(settings.device or range(runtime.count or 1)))
    others = worker_count if worker_count > 1 else 0
    checks: dict[str, Callable[[], object]] = {
        "--backend": lambda: _shown(settings, runtime),
        "--listen": lambda: Addresses(settings.listen, others).close(),
        "memory": lambda: check_memory(settings.memory_limit_bytes, worker_count),
        "open files": lambda: check_open_files(FILES_OF_WORKER * others or 1),
        "--tls-certificate": lambda: open_certificates(settings),
        "--identities": lambda: settings.identities and read_identities(settings.identities),
    }
    if settings.admin != OFF:
        checks["--admin"] = lambda: check_address(settings.admin)
    if runtime.count:
        slots = share_of(settings.streams, on_card)
        checks["--streams"] = lambda: check_streams(runtime.soc_name, slots, on_card)
    for name, check in checks.items():
        try:
            told = check()
            yield passed(f"start: {name}", told if isinstance(told, str) and told else "can be used")
        except StartError as error:
            yield failed(f"start: {name}", _shortened(str(error)), _NO_START)
    for danger in dangers(settings.listen, *map(bool, (settings.tls_key, settings.tls_client_ca, settings.identities))):
        yield noted("start: network", danger)


def _shown(settings: Settings, runtime: Runtime) -> str:
    """Returns the library and its number of devices; raises StartError if one of the settings, or any, is missing."""
    if (count := runtime.count) is None:
        raise StartError(runtime.problem)
    if missing := [index for index in settings.device or (0,) if not 0 <= index < count]:
        raise StartError(f"there is no device {missing[0]}: the runtime shows {count}; see --device and {VISIBLE}")
    return f"{runtime_file(settings.backend)} shows {counted(count, 'device')}"


def _of_devices(settings: Settings, cards: Sequence[int], probes: bool) -> Iterator[Row]:
    """Opens and tests each device in a process of its own, because a driver may hang; yields a row for each."""
    # Each process sees one device; a fork would have our threads' locks.
    context = multiprocessing.get_context("spawn")
    for index, on_card in Counter(cards).items():
        receiver, sender = context.Pipe(duplex=False)
        own = settings.model_copy(update={"device": (index,), "streams": share_of(settings.streams, on_card)})
        process = context.Process(target=_examine, args=(own, on_card, probes, sender))
        process.start()
        sender.close()
        try:
            yield receiver.recv()
        except EOFError:
            process.join()
            yield failed(f"device {index}", f"the process that opened it ended with {process.exitcode}", _SEE_CARD)
        finally:
            process.kill()


def _examine(settings: Settings, on_card: int, probes: bool, sender: Connection) -> None:
    logging.getLogger().addHandler(logging.NullHandler())
    # Not asyncio.run: the end of its loop would wait for a thread that a driver keeps.
    sender.send(asyncio.Runner().run(_opened_and_tested(settings, on_card, probes)))


async def _opened_and_tested(settings: Settings, on_card: int, probes: bool) -> Row:
    name = f"device {settings.device[0]}"
    try:
        probed = await probe(settings, on_card) if probes else None
        _, device = await open_device(settings, Completions(), lambda *_: None, on_card)
        off = await self_test(device, product_of(device.soc_name), settings.hang_timeout_s, probed)
    except StartError as error:
        return failed(name, str(error))
    except UnfitDeviceError as error:
        return failed(name, _shortened(str(error)), _SEE_CARD)
    if wrong := [f"{each.name}: {each.reason}" for each in off.messages()]:
        return failed(name, f"it fails {', '.join(wrong)}", "see `aclgrad check`")
    sample = await device.take_sample()
    used = max(0, sample.total_bytes - sample.free_bytes - sample.pool.reserved_bytes)
    memory = f"{used / 2**30:.1f} of {sample.total_bytes / 2**30:.1f} GiB are in use ({_NORMAL})"
    return passed(name, f"{device.soc_name} opens and passes the self-test; without its own pool {memory}")


def _shortened(text: str) -> str:
    # The first text of a card names the cause, and a block for each of its cores may follow.
    return text if len(text) <= _TEXT else f"{text[:_TEXT]} ..."
