"""The flags of the programs, from the programs themselves."""

import inspect
from collections.abc import Iterator
from typing import Final

import click

from aclgrad.commands import program
from aclgrad_server import cli, doctor

PROGRAMS: Final[dict[str, click.Command]] = {
    **{f"aclgrad {name}": command for name, command in program.commands.items() if not command.hidden},
    "aclgrad-server": cli.main,
    "aclgrad-server doctor": doctor.main,
}


def page() -> str:
    """Returns the page with a section for each command."""
    return "# Every flag\n\nWhat `--help` says of each command.\n" + "".join(map(_section, PROGRAMS))


def _section(name: str) -> str:
    command = PROGRAMS[name]
    context = click.Context(command, info_name=name)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    text = inspect.cleandoc(command.help or "")
    rows = "".join(f"| {flag} | {meaning} |\n" for flag, meaning in _options(command, context))
    return f"\n## {name}\n\n```text\n{usage}\n```\n\n{text}\n\n| flag | meaning |\n|---|---|\n{rows}"


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            flag, meaning = (text.replace("|", "\\|") for text in record)
            yield f"`{flag}`", meaning
