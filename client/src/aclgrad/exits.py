"""How a command ends: one line for an error, with `--json` one object as well, and an exit code."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
from rich.console import Console

from aclgrad.errors import AclgradError, InvalidSettingError, RequestError
from aclgrad.exit_codes import ExitCode
from aclgrad.new_files import is_of_output
from aclgrad.tables import new_console

_PRINTED: Final = "aclgrad.exits.printed"
"""In the context of a command that has printed its object."""


def wants_json() -> bool:
    """Says whether the command that runs has the flag `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("as_json"))


def output_console() -> Console:
    """Returns what prints a command's output for people, which is nothing with `--json`."""
    console = new_console()
    console.quiet = wants_json()
    return console


def print_json(value: Any) -> None:
    """Prints an object as one line."""
    if context := click.get_current_context(silent=True):
        context.meta[_PRINTED] = True
    click.echo(json.dumps(value, allow_nan=False))


def print_error(problem: object, code: int) -> None:
    """Prints the object of a command that ends with an error, unless it has printed one."""
    context = click.get_current_context(silent=True)
    if context is None or _PRINTED not in context.meta:
        kind = type(problem).__name__ if isinstance(problem, Exception) else ExitCode(code).name.capitalize()
        message = problem.format_message() if isinstance(problem, click.ClickException) else str(problem)
        print_json({"error": {"type": kind, "message": message}, "exit_code": int(code)})


def code_of(error: Exception) -> ExitCode:
    """Returns the exit code of a command that ends with this error."""
    is_of_server = isinstance(error, AclgradError) and not isinstance(error, RequestError | InvalidSettingError)
    return ExitCode.SERVER if is_of_server else ExitCode.UNUSABLE


@contextmanager
def exit_codes(name: str) -> Iterator[None]:
    """Ends the process with one line for an error, and its code."""
    try:
        yield
    except (AclgradError, OSError, ValueError) as error:
        if isinstance(error, OSError) and is_of_output(error):
            raise  # the program says so for every command
        problem: object = error
        if isinstance(error, OSError) and error.filename is not None:
            problem = f"{error.filename}: {error.strerror}"
        fail(name, problem, code_of(error))
    except KeyboardInterrupt:
        fail(name, "interrupted", ExitCode.INTERRUPTED)


def fail(name: str, problem: object, code: int) -> None:
    """Prints one line to standard error and exits; with `--json` an object to standard output, too."""
    click.echo(f"aclgrad {name}: {problem}", err=True)
    if wants_json():
        print_error(problem, code)
    sys.exit(code)
