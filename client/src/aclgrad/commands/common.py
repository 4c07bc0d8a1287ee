"""Shared by the commands: settings of a client, errors as one line and an exit code, names of operators, and JSON."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import click

from aclgrad._client.settings.environment import unless_set
from aclgrad.errors import AclgradError, InvalidSettingError, RequestError, UnknownOperatorError
from aclgrad.new_files import is_of_output
from aclgrad.operators.spec import AttributeKind, OperatorKind
from aclgrad.tensors import DType

Listed = TypeVar("Listed")

FAILED: Final = 1
UNUSABLE: Final = 2
INTERRUPTED: Final = 130


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
        if isinstance(error, OSError) and is_of_output(error):
            raise  # the program says so for every command
        fail(name, error, UNUSABLE)
    except KeyboardInterrupt:
        fail(name, "interrupted", INTERRUPTED)


def fail(name: str, problem: object, code: int) -> None:
    """Prints one line to standard error and exits."""
    click.echo(f"aclgrad {name}: {problem}", err=True)
    sys.exit(code)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, allow_nan=False))


def chosen(name: str, listed: Mapping[str, Listed], where: str) -> Listed:
    """Returns what has this name; raises UnknownOperatorError with the names that were meant."""
    if name not in listed:
        meant = [each for each in listed if name in each] or get_close_matches(name, listed) or listed
        raise UnknownOperatorError.at("operator", f"{name} is not {where}", f"call one of {', '.join(meant)}")
    return listed[name]


def plain(value: Any) -> Any:
    """Returns what JSON has for a value of the client."""
    match value:
        case DType():
            return value.name
        case AttributeKind() | OperatorKind():
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
