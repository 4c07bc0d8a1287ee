"""The command line: flags to Settings, signals to the server, errors to one line and an exit code."""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NoReturn, get_args, get_origin

import click

from aclgrad_server import logs
from aclgrad_server.admin.listener import AdminListener
from aclgrad_server.admin.pages import pages
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.exits import StartError
from aclgrad_server.log_forms import Form, JsonForm
from aclgrad_server.server import Server, prepare_process
from aclgrad_server.settings import OFF, Settings, UnusableSettingsError, read_settings, unknown_variables, variable_of
from aclgrad_server.state import ServerState

log = logging.getLogger(__name__)

EXIT_START: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNDRAINED: Final = 3
EXIT_DEVICE_LOST: Final = 4
EXIT_LIMIT_S: Final = 15.0  # beyond the drain limit, the time after which a stop that hangs ends the process

_METAVARS: Final = {
    "listen": "HOST:PORT|unix:PATH",
    "admin": "HOST:PORT|off",
    "backend": "[auto|ascend|host|PATH]",
    "bytes": "BYTES",
    "s": "SECONDS",
    "ms": "MILLISECONDS",
    "config": "FILE",
    "certificate": "FILE",
    "key": "FILE",
    "ca": "FILE",
    "identities": "FILE",
    "mode": "OCTAL",
    "group": "NAME",
    "prefix": "TEXT",
}
"""The unit of a setting, by the last word of its name."""


def _metavar(name: str, annotation: Any) -> str:
    """Returns a setting's values, or their unit or kind, for the help."""
    if annotation is bool:
        return "[true|false]"
    if get_origin(annotation) is Literal:
        return f"[{'|'.join(get_args(annotation))}]"
    return _METAVARS.get(name.rpartition("_")[2], "INTEGER")


def _settings_as_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds a flag for each setting; without the flag, the environment, the file or the default decides."""
    for name, field in reversed(Settings.model_fields.items()):
        repeatable = isinstance(field.default, tuple)
        default = " ".join(map(str, field.default)) if repeatable else field.default
        default = str(default).lower() if isinstance(default, bool) else default
        told = f"default: {default}; " if default not in (None, "") else ""
        # A switch may stand alone.
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if field.annotation is bool else {}
        command = click.option(
            f"--{name.replace('_', '-')}",
            multiple=repeatable,
            **alone,
            metavar=_metavar(name, field.annotation),
            help=f"{field.description} [{told}{variable_of(name)}]",
        )(command)
    return command


@click.command(
    context_settings={"max_content_width": 120},
    epilog="Health of a server: aclgrad-server probe --help. What keeps one from running: aclgrad-server doctor --help."
    " A new token: aclgrad-server token --help",
)
@click.version_option(package_name="aclgrad-server", message="%(version)s")
@_settings_as_options
def main(**flags: Any) -> None:
    """Serve CANN's aclnn backward operators over gRPC until SIGTERM or SIGINT.

    Prints `admin: ADDRESS` when it answers health checks, and `ready: ADDRESS...` when it serves. Flags override
    variables; variables override the TOML file.
    """
    try:
        settings = read_settings(flags)
    except UnusableSettingsError as error:
        _fail(_form_before_settings(flags), EXIT_USAGE, *error.args)
    form = logs.form_of(settings.log_format)
    logs.configure(settings.log_level, form)
    for name in unknown_variables(os.environ):
        log.warning("%s is not a setting of the server; see --help", name)
    try:
        asyncio.run(_run(settings))
    except StartError as error:
        _fail(form, EXIT_START, str(error))


def run() -> None:
    """Runs the command of this process. Wrong flags are in the log's format, too, unless that is text."""
    try:
        main(prog_name="aclgrad-server", standalone_mode=False)
    except click.UsageError as error:
        form = _form_before_settings({})
        if isinstance(form, JsonForm):
            _fail(form, EXIT_USAGE, error.format_message())
        error.show()
        sys.exit(EXIT_USAGE)
    except click.Abort:
        sys.exit(EXIT_START)


async def _run(settings: Settings) -> None:
    """Serves until the process is asked to stop; ends it with an exit code if something failed."""
    prepare_process(settings)
    stop = _StopRequest(settings.drain_timeout_s + EXIT_LIMIT_S)
    state = ServerState(settings)
    admin = None if settings.admin == OFF else AdminListener(settings.admin, pages(state))
    if admin is not None:
        print(f"admin: {admin.start()}", flush=True)
    server = Server(state, on_device_lost=stop.make)
    start, requested = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.requested.wait())
    await asyncio.wait((start, requested), return_when=asyncio.FIRST_COMPLETED)
    is_fit = True
    if start.done():
        try:
            start.result()
        except UnfitDeviceError as error:
            is_fit = False
            # A new process would find the same card: this one stays, so that nothing restarts in a loop.
            log.error("%s; never ready: look at the card (npu-smi info), then restart this process", error)
            state.readiness.set_not_ready(error.summary)
        except StartError:
            # The admin thread keeps the state, and the devices have to close before the interpreter ends.
            state.group = None
            raise
        else:
            # The objects that exist now stay, so the garbage collector need not visit them again.
            gc.collect()
            gc.freeze()
            print(f"ready: {' '.join(state.addresses)}", flush=True)
        await requested
    is_started = start.done()
    start.cancel()
    drained = await server.stop()
    if admin is not None:
        admin.stop()
    exit_code = 0 if drained else EXIT_UNDRAINED
    if is_fit and server.is_device_lost:
        exit_code = EXIT_DEVICE_LOST
        log.error("a device was lost; ending with exit code %d to be started again", exit_code)
    if exit_code or not is_fit or not is_started:
        # A thread that a device does not give back would keep the interpreter from ending.
        logging.shutdown()
        os._exit(exit_code)


class _StopRequest:
    """Catches SIGTERM and SIGINT; a second one ends the process at once.

    After the stop was requested, the process ends within `limit_s`, even if the driver or the event loop hangs.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.requested = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._catch, number)

    def make(self) -> None:
        """Requests the stop."""
        if not self.requested.is_set():
            self.requested.set()
            # A C thread, which needs neither the interpreter nor the event loop. It prints the stack of every thread.
            faulthandler.dump_traceback_later(self._limit_s, exit=True)

    def _catch(self, number: int) -> None:
        if self.requested.is_set():
            os._exit(128 + number)
        self.make()


def _form_before_settings(flags: Mapping[str, Any]) -> Form:
    """Returns the form of a message about the settings, which decide the form of the others; on a terminal, text."""
    asked = flags.get("log_format") or os.environ.get(variable_of("log_format"))
    return logs.form_of("text" if asked == "text" else "auto")


def _fail(form: Form, code: int, *lines: str) -> NoReturn:
    logs.last_words(form, *lines)
    sys.exit(code)
