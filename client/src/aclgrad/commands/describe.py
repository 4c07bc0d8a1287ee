"""`aclgrad operators` and `aclgrad status`: what a server serves, and how it is."""

from collections.abc import Sequence
from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aclgrad._client import Client
from aclgrad.commands.common import CONNECT_TIMEOUT_S, exit_codes, json_option, print_json, target_option
from aclgrad.tensors import dtype_of_wire
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import attribute_value

_MIB = 2**20


@click.command()
@json_option
@target_option
def operators(as_json: bool, target: str) -> None:
    """Lists the operators that the server serves on its product, with what each takes."""
    with exit_codes("operators"), Client(target, connect_timeout_s=CONNECT_TIMEOUT_S) as client:
        listed = client.list_operators()
    if as_json:
        print_json([_as_dict(each) for each in listed])
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
    """Tells what the server runs on and how busy it is."""
    with exit_codes("status"), Client(target, connect_timeout_s=CONNECT_TIMEOUT_S) as client:
        found = client.server_status()
    if as_json:
        print_json(_as_dict(found))
        return
    console = Console()
    queue = found.queue
    versions = ", ".join(f"{name} {version}" for name, version in sorted(found.versions.items()))
    lines = (
        ("server", f"aclgrad {found.version} at {target}, since {found.start_time.ToJsonString()}"),
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
    console.print(table)


def _as_dict(message: Any) -> dict[str, Any]:
    told: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return told


def _dtypes(input: pb.InputDescription) -> str:
    return ", ".join(str(dtype_of_wire(number) or f"DataType {number}") for number in input.data_types)


def _attribute(attribute: pb.AttributeDescription) -> str:
    kind = pb.AttributeKind.Name(attribute.kind).removeprefix("ATTRIBUTE_KIND_").lower()
    lengths = f" of {' or '.join(map(str, attribute.lengths))}" if attribute.lengths else ""
    if not attribute.HasField("default_value"):
        return f"{kind}{lengths}, required"
    value = attribute_value(attribute.name, attribute.default_value)
    shown = (",".join(map(str, value)) or "empty") if isinstance(value, Sequence) else value
    return f"{kind}{lengths}, {shown} by default"
