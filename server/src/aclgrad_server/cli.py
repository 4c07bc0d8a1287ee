"""The command line: flags to Settings, signals to the server, errors to one line and an exit code."""

import gc
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import click
from pydantic import ValidationError

from aclgrad_server import logs
from aclgrad_server.faults import StartError
from aclgrad_server.probe import probe
from aclgrad_server.server import Server
from aclgrad_server.settings import Settings, unknown_variables
from aclgrad_server.stop_request import StopRequest

log = logging.getLogger(__name__)

EXIT_START: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNDRAINED: Final = 3
EXIT_DEVICE_LOST: Final = 4


def _settings_as_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds a flag for each setting; one that is not given is left to the environment, the file and the default."""
    for name, field in reversed(Settings.model_fields.items()):
        repeatable = isinstance(field.default, tuple)
        default = " ".join(map(str, field.default)) if repeatable else field.default
        told = f"default: {default}; " if default not in (None, "") else ""
        # A switch may stand alone.
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if field.annotation is bool else {}
        command = click.option(
            f"--{name.replace('_', '-')}",
            multiple=repeatable,
            **alone,
            metavar=name.rpartition("_")[2].upper(),
            help=f"{field.description} [{told}ACLGRAD_{name.upper()}]",
        )(command)
    return command


@click.group(commands=[probe], invoke_without_command=True, context_settings={"max_content_width": 120})
@click.version_option(package_name="aclgrad-server", message="%(version)s")
@_settings_as_options
@click.pass_context
def main(context: click.Context, /, **flags: Any) -> None:
    """Serve CANN's aclnn backward operators over gRPC until SIGTERM or SIGINT.

    Prints `ready: ADDRESS...` when it serves. A flag goes before its variable, the variable before the TOML file.
    """
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value not in (None, ())})
    except (ValidationError, OSError, ValueError) as error:
        _fail(EXIT_USAGE, _told(error))
    context.obj = settings
    if context.invoked_subcommand is None:
        _serve(settings)


def _serve(settings: Settings) -> None:
    logs.configure(settings.log_level)
    for name in unknown_variables(os.environ):
        log.warning("%s is no setting of the server; see --help", name)
    stop = StopRequest()
    server = Server(settings, on_device_lost=stop.make)
    try:
        server.start()
    except StartError as error:
        _fail(EXIT_START, str(error))
    # What is there now stays: no collection has to walk through it again.
    gc.collect()
    gc.freeze()
    print(f"ready: {' '.join(server.addresses)}", flush=True)
    stop.wait()
    drained = server.stop()
    if server.is_device_lost:
        log.error("a device was lost; ending with exit code %d to be started again", EXIT_DEVICE_LOST)
        logging.shutdown()
        # Nothing of a lost device can be relied on to end by itself.
        os._exit(EXIT_DEVICE_LOST)
    if not drained:
        # A thread that a device does not give back would keep the interpreter from ending.
        logging.shutdown()
        os._exit(EXIT_UNDRAINED)


def _told(error: Exception) -> str:
    """Returns what is wrong with the settings, one line for each."""
    if not isinstance(error, ValidationError):
        return str(error)
    lines = []
    for each in error.errors():
        name = ".".join(map(str, each["loc"]))
        lines.append(f"{name or 'settings'}: {each['msg']} (given: {each['input']!r})")
    return "\n".join(lines)


def _fail(code: int, message: str) -> NoReturn:
    print(f"aclgrad-server: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
