"""`aclgrad operators` and `aclgrad status`: a server's operators, and its state."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aclgrad._client import Client
from aclgrad._descriptions import AttributeDescription, InputDescription
from aclgrad.commands.common import connection, exit_codes, json_option, print_json, print_table, target_option
from aclgrad.operators.spec import AttributeKind
from aclgrad.tensors import DType

_MIB = 2**20


@click.command()
@json_option
@target_option
def operators(as_json: bool, target: str) -> None:
    """Lists the operators that the server serves on its product, with their inputs and attributes."""
    with exit_codes("operators"), Client.from_env(**connection(target)) as client:
        listed = client.list_operators()
    if as_json:
        print_json([_plain(each) for each in listed])
        return
    for each in listed:
        click.echo(f"{each.name} ({each.symbol})\n    {each.summary}")
        for input in each.inputs:
            ranks = " or ".join(map(str, input.ranks))
            shape_only = ", or its shape" if input.shape_only else ""
            click.echo(f"    {input.name}: {_dtypes(input)}, {ranks} dimensions{shape_only}")
        for attribute in each.attributes:
            click.echo(f"    {attribute.name}: {_attribute(attribute)}")


@click.command()
@json_option
@target_option
def status(as_json: bool, target: str) -> None:
    """Shows the server's devices, versions and load."""
    with exit_codes("status"), Client.from_env(**connection(target)) as client:
        found = client.server_status()
    if as_json:
        print_json(_plain(found))
        return
    if not found.library:
        click.echo(f"aclgrad {found.version} at {target}, {found.product}; the server tells more to the right `status`")
        return
    console = Console()
    queue = found.queue
    since = f", since {found.start_time:%Y-%m-%d %H:%M:%S} UTC" if found.start_time else ""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(found.versions.items()))
    lines = (
        ("server", f"aclgrad {found.version} at {target}{since}"),
        ("product", found.product),
        ("library", f"{found.library} {found.runtime_version}"),
        ("versions", versions),
        ("calls", f"{queue.running_count} of {queue.running_limit} run, {queue.waiting_count} wait"),
        ("memory of calls", f"{queue.running_bytes // _MIB} of {queue.running_bytes_limit // _MIB} MiB"),
        ("largest message", f"{found.limits.message_bytes // _MIB} MiB"),
    )
    turned_off = [("turned off", f"{each.name}: {each.reason}") for each in found.turned_off_operators]
    for name, told in (*lines, *turned_off):
        if told:
            console.print(f"{name + ':':17}{escape(told)}", highlight=False, soft_wrap=True)
    table = Table("device", "chip", "streams", "pool MiB", "most MiB", "limit MiB", "free MiB")
    for device in found.devices:
        pool = device.pool
        streams = f"{device.leased_stream_count} of {device.stream_count}"
        sizes = (pool.reserved_bytes, pool.peak_reserved_bytes, pool.limit_bytes, device.free_bytes)
        table.add_row(str(device.index), device.soc_name, streams, *(str(size // _MIB) for size in sizes))
    print_table(table)


def _plain(value: Any) -> Any:
    """Returns what JSON has for a value of the client."""
    match value:
        case DType():
            return value.name
        case AttributeKind():
            return value.name.lower()
        case datetime():
            return value.isoformat()
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value


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
