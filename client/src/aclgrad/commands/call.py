"""`aclgrad call`: one gradient, from files to a file."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from aclgrad._client.calls.outgoing import Input
from aclgrad._client.server.operators import OperatorDescription
from aclgrad._client.sync.client import Client
from aclgrad.commands.common import connection, exit_codes, json_option, print_json, target_option
from aclgrad.commands.files import check_unwritten, checked_output, is_file, load, save
from aclgrad.errors import UnknownOperatorError
from aclgrad.operators.spec import AttributeKind
from aclgrad.wire.messages import AttributeValue

_BOOLS: Final = {"true": True, "1": True, "false": False, "0": False}


@click.command()
@click.argument("operator")
@click.argument("arguments", nargs=-1, metavar="NAME=VALUE...")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the gradient to this file."
)
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.option("--timeout-s", type=click.FloatRange(min=0, min_open=True), default=300.0, show_default=True)
@json_option
@target_option
def call(
    operator: str,
    arguments: Sequence[str],
    output: Path | None,
    force: bool,
    timeout_s: float,
    as_json: bool,
    target: str,
) -> None:
    """Computes one gradient of OPERATOR on the server.

    An input is a file (g.npy, all.npz:g, all.safetensors:g) or, if only its shape matters, sizes: input=8,64,56,56. An
    attribute is a number, true or false, or numbers separated by commas. `aclgrad operators` lists the names.

    Exits with 0, with 2 if a file or the request is wrong, with 1 if the server failed, with 130 if interrupted.
    """
    with exit_codes("call"), Client.from_env(**connection(target), timeout_s=timeout_s) as client:
        if output is not None:
            check_unwritten(checked_output(output), overwrite=force)
        inputs, attributes = _parse(_description(client, operator), arguments)
        start = time.perf_counter()
        gradient = client.execute(operator, inputs, attributes)
        seconds = time.perf_counter() - start
        if output is not None:
            save(output, "gradient", gradient, overwrite=force)
        told = {
            "operator": operator,
            "dtype": str(gradient.dtype),
            "shape": gradient.shape,
            "seconds": seconds,
            "output": None if output is None else str(output),
        }
        if as_json:
            print_json(told)
        else:
            sizes = "x".join(map(str, gradient.shape))
            where = f" to {output}" if output else ""
            click.echo(f"{gradient.dtype} {sizes}{where} in {1e3 * seconds:.1f} ms")


def _description(client: Client, operator: str) -> OperatorDescription:
    """Returns the server's description of the operator; raises UnknownOperatorError if it does not list it."""
    listed = {each.name: each for each in client.list_operators()}
    if operator not in listed:
        remedy = f"call one of {', '.join(listed)}"
        raise UnknownOperatorError.at("operator", f"{operator} is not served there", remedy)
    return listed[operator]


def _parse(
    description: OperatorDescription, arguments: Sequence[str]
) -> tuple[dict[str, Input], dict[str, AttributeValue]]:
    kinds = {each.name: each.kind for each in description.attributes}
    names = [*(each.name for each in description.inputs), *kinds]
    inputs: dict[str, Input] = {}
    attributes: dict[str, AttributeValue] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals and value):
            raise ValueError(f"{argument!r} is not NAME=VALUE")
        # CANN's name; the client's methods call it `input`.
        name = "self" if name == "input" else name
        if name in inputs or name in attributes:
            raise ValueError(f"{name} is given twice")
        if name not in names:
            raise ValueError(f"{name} is not known; {description.name} takes {', '.join(names)}")
        if name in kinds:
            attributes[name] = _read(name, value, *_form(name, kinds[name]))
        elif is_file(value):
            inputs[name] = load(value)
        else:
            inputs[name] = _read(name, value, _integers, "a file (npy, npz, safetensors) or sizes such as 8,64,56,56")
    return inputs, attributes


def _form(name: str, kind: AttributeKind | None) -> tuple[Callable[[str], Any], str]:
    if kind is None:
        raise ValueError(f"{name} is of a kind that this client does not know; upgrade aclgrad")
    return _FORMS[kind]


def _read(name: str, value: str, read: Callable[[str], Any], form: str) -> Any:
    try:
        return read(value)
    except (ValueError, KeyError):
        raise ValueError(f"{name}={value}: give {form}") from None


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


_FORMS: Final[Mapping[AttributeKind, tuple[Callable[[str], Any], str]]] = {
    AttributeKind.BOOL: (lambda text: _BOOLS[text.lower()], "true or false"),
    AttributeKind.INT: (int, "an integer"),
    AttributeKind.DOUBLE: (float, "a number"),
    AttributeKind.INTS: (_integers, "integers separated by commas"),
}
