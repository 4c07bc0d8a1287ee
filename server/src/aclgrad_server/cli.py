"""The command line: flags to Settings, one process or several, errors to one line and an exit code."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, Literal, get_args, get_origin

import click

from aclgrad_server import logs
from aclgrad_server.exits import EXIT_START, EXIT_USAGE, StartError
from aclgrad_server.logs import Form, JsonForm
from aclgrad_server.settings import (
    OFF,
    Settings,
    UnusableSettingsError,
    as_text,
    read_settings,
    unknown_variables,
    variable_of,
)
from aclgrad_server.supervisor.cards import ask_runtime, probes_in_child, workers_of

log = logging.getLogger(__name__)

_METAVARS: Final = {"Path": "FILE", "ByteSize": "SIZE", "float": "SECONDS", "int": "INTEGER", "bool": "[true|false]"}
"""Names of a setting's values in the help, by the type of its annotation; others are texts."""


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return f"[{'|'.join(get_args(annotation))}]"
    return next((text for kind, text in _METAVARS.items() if kind in str(annotation)), "TEXT")


def _settings_as_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds a flag for each setting; without the flag, the environment, the file or the default decides."""
    for name, field in reversed(Settings.model_fields.items()):
        default = "" if field.default is None else as_text(field.default)
        told = f"default: {default}; " if default else ""
        # A switch may stand alone.
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if field.annotation is bool else {}
        command = click.option(
            f"--{name.replace('_', '-')}",
            multiple=isinstance(field.default, tuple),
            **alone,
            metavar=_metavar(field.annotation),
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
def main(**flags: Any) -> int:
    """Serve CANN's aclnn backward operators over gRPC until SIGTERM or SIGINT.

    Prints `admin: ADDRESS` when it answers health checks, and `ready: ADDRESS...` when it serves; with several devices
    or workers, also `worker I: ADDRESS...` for each. Flags override variables; variables override the TOML file. A SIZE
    is a number of bytes, or one with a unit: k, M, G, T of 1000, or Ki, Mi, Gi, Ti of 1024.

    SIGHUP reads the file again. Several workers are restarted with it one by one; a single process takes the log level,
    the number of waiting calls and the drain limit, and its log names changes that need a restart.
    """
    try:
        settings = read_settings(flags)
    except UnusableSettingsError as error:
        logs.last_words(_form_before_settings(flags), *error.args)
        return EXIT_USAGE
    form = logs.form_of(settings.log_format)
    logs.configure(settings.log_level, form)
    for name in unknown_variables(os.environ):
        log.warning("%s is not a setting of the server; see --help", name)
    try:
        runtime = cache(partial(ask_runtime, settings))
        # In a thread, so that the libraries load meanwhile; one thread, so that the runtime is asked once.
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(workers_of, settings, runtime)
            probes = thread.submit(probes_in_child, settings, runtime)
            import_module("asyncio")
            if settings.admin != OFF:
                import_module("aclgrad_server.admin.listener")
            run = _load(settings, asked.result(), flags)
        return run(probes.result())
    except (StartError, ImportError) as error:
        if isinstance(error, ImportError) and error.name != "aclgrad_native":
            raise
        logs.last_words(form, str(error))
        return EXIT_START


def _load(settings: Settings, cards: Sequence[int], flags: Mapping[str, Any]) -> Callable[[bool], int]:
    """Returns the function that runs one process or several; it takes whether child processes probe operators."""
    import asyncio

    reread = partial(read_settings, flags)
    if len(cards) > 1:
        from aclgrad_server.supervisor.supervisor import Supervisor

        return lambda probes: asyncio.run(Supervisor(settings, cards, reread, probes).run())
    # gRPC is loaded only in processes that serve.
    from aclgrad_server.serving import serve

    own = settings.model_copy(update={"device": tuple(cards)}) if settings.device else settings
    return lambda probes: asyncio.run(serve(own, None, probes, reread))


def run() -> int:
    """Runs the command of this process, and returns its exit code.

    Wrong flags are in the log's format, too, unless that is text.
    """
    try:
        code: int = main(prog_name="aclgrad-server", standalone_mode=False)
        return code
    except click.UsageError as error:
        form = _form_before_settings({})
        if isinstance(form, JsonForm):
            logs.last_words(form, error.format_message())
        else:
            error.show()
        return EXIT_USAGE
    except click.Abort:
        return EXIT_START


def _form_before_settings(flags: Mapping[str, Any]) -> Form:
    """Returns the log format for messages about the settings themselves; on a terminal, text."""
    asked = flags.get("log_format") or os.environ.get(variable_of("log_format"))
    return logs.form_of("text" if asked == "text" else "auto")
