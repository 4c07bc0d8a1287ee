"""`aclgrad call --program`: several operators in one call, from files to a file."""

import json
from pathlib import Path
from typing import Any, Final

from aclgrad._client.sync.client import Client
from aclgrad.commands.common import connection
from aclgrad.commands.files import load
from aclgrad.commands.outcome import Outcome, about, check_output, check_room
from aclgrad.exits import exit_codes
from aclgrad.judge.programs.form import program_of
from aclgrad.judge.programs.program import Program, Returned
from aclgrad.judge.programs.sending import send
from aclgrad.progress import waiting

_FORM: Final = 'give a file like {"steps": [...]}: see `aclgrad call --help`'


def call_program(path: Path, output: Path | None, force: bool, timeout_s: float, as_json: bool, target: str) -> None:
    """Runs the program, and writes its results to the output, if there is one."""
    with exit_codes("call"):
        check_output(output, overwrite=force)
        program, returned = read_program(path)
        check_room(output, [program.label(each) for each in returned])
        with Client.from_env(**connection(target), timeout_s=timeout_s) as client, waiting(f"waiting for {target}"):
            outcome = Outcome.of(lambda: send(client, program, returned), **about(program))
        outcome.save(output, overwrite=force)
        outcome.show(output, as_json=as_json)


def read_program(path: Path) -> tuple[Program, tuple[Returned, ...]]:
    """Returns the program in a file, with its arrays and its results.

    Raises ValueError, with the file's name, if the file is malformed, and OSError if it cannot be read.
    """
    content = path.read_bytes()
    try:
        fields = json.loads(content, parse_constant=_no_number, object_pairs_hook=_unique)
        return program_of(fields, lambda file: load(str(path.parent / file)))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{path} is no JSON ({place}): {error.msg}; {_FORM}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no JSON: it is no text; {_FORM}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def _unique(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"it has {next(each for each in names if names.count(each) > 1)!r} twice in one object")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"it has {text}, which is no number")
