"""Shared by the commands: the server's address, errors as one line and an exit code, and JSON."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from aclgrad._client.channel.targets import DEFAULT_TARGET
from aclgrad._client.settings.environment import unless_set
from aclgrad.errors import AclgradError, InvalidSettingError, RequestError
from aclgrad.operators.spec import AttributeKind
from aclgrad.tensors import DType

FAILED: Final = 1
UNUSABLE: Final = 2
INTERRUPTED: Final = 130


def target_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --target, which the variable ACLGRAD_TARGET also sets; `Client.from_env` reads the other variables."""
    return click.option(
        "--target",
        envvar="ACLGRAD_TARGET",
        default=DEFAULT_TARGET,
        show_default=True,
        show_envvar=True,
        help="The server: host:port or unix:path; several with commas.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --json, with which a command prints one JSON object and nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def connection(target: str) -> dict[str, Any]:
    """Returns the settings of a command's client: it waits for less time for a server than other clients do."""
    return {"target": target, **unless_set(connect_timeout_s=5.0)}


@contextmanager
def exit_codes(name: str) -> Iterator[None]:
    """Ends the process with one line for an error: 2 if the request or the file is wrong, 1 if the server failed."""
    try:
        yield
    except AclgradError as error:
        fail(name, error, UNUSABLE if isinstance(error, RequestError | InvalidSettingError) else FAILED)
    except (OSError, ValueError) as error:
        fail(name, error, UNUSABLE)
    except KeyboardInterrupt:
        fail(name, "interrupted", INTERRUPTED)


def fail(name: str, problem: object, code: int) -> None:
    """Prints one line to standard error and exits."""
    click.echo(f"aclgrad {name}: {problem}", err=True)
    sys.exit(code)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, allow_nan=False))


def print_table(table: Table) -> None:
    """Prints the whole table, no wider than the terminal: what does not fit goes on in the next line of its cell."""
    for column in table.columns:
        column.overflow = "fold"
    Console().print(table)


def plain(value: Any) -> Any:
    """Returns what JSON has for a value of the client."""
    match value:
        case DType():
            return value.name
        case AttributeKind():
            return value.name.lower()
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value
