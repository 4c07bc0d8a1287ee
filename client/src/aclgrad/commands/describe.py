"""`aclgrad operators`: what a server serves."""

from collections.abc import Sequence

import click

from aclgrad._client.server.operators import AttributeDescription, InputDescription
from aclgrad._client.sync.client import Client
from aclgrad.commands.common import connection, exit_codes, json_option, plain, print_json, target_option


@click.command()
@json_option
@target_option
def operators(as_json: bool, target: str) -> None:
    """Lists the operators that the server serves on its product, with their inputs and attributes."""
    with exit_codes("operators"), Client.from_env(**connection(target)) as client:
        listed = client.list_operators()
    if as_json:
        print_json([plain(each) for each in listed])
        return
    for each in listed:
        click.echo(f"{each.name} ({each.symbol})\n    {each.summary}")
        for input in each.inputs:
            ranks = " or ".join(map(str, input.ranks))
            shape_only = ", or its shape" if input.shape_only else ""
            click.echo(f"    {input.name}: {_dtypes(input)}, {ranks} dimensions{shape_only}")
        for attribute in each.attributes:
            click.echo(f"    {attribute.name}: {_attribute(attribute)}")


def _dtypes(input: InputDescription) -> str:
    return ", ".join([*map(str, input.dtypes), *(f"DataType {number}" for number in input.unknown_dtypes)])


def _attribute(attribute: AttributeDescription) -> str:
    kind = attribute.kind.name.lower() if attribute.kind else "of an unknown kind"
    lengths = f" of {' or '.join(map(str, attribute.lengths))}" if attribute.lengths else ""
    if attribute.required:
        return f"{kind}{lengths}, required"
    value = attribute.default
    shown = (",".join(map(str, value)) or "empty") if isinstance(value, Sequence) else value
    return f"{kind}{lengths}, {shown} by default"
