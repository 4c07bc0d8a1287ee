"""`aclgrad operators`: the operators of a server, or of every product as this client knows them."""

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

import click

from aclgrad._client.sync.client import Client
from aclgrad.commands.common import chosen, connection, plain
from aclgrad.descriptions.operators import (
    AttributeDescription,
    InputDescription,
    OperatorDescription,
    operators_of,
)
from aclgrad.exits import exit_codes, print_json
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.operators.spec import counts
from aclgrad.products import Product
from aclgrad.progress import waiting
from aclgrad.tables import new_console
from aclgrad.tables import table as columns
from aclgrad.v1 import operator_service_pb2 as pb

_EXACT: Final = 2.0**53
_WIDE: Final = 72
_ALL: Final = 100
_UNBOUNDED: Final = 1000
ByProduct = Mapping[str, OperatorDescription]
"""An operator by product; a server has one product."""


def operators(name: str | None, as_json: bool, target: str | None) -> None:
    """Shows a table of all operators, or one of them in detail."""
    with exit_codes("operators"):
        known = _of_catalogue() if target is None else _of_server(target)
        if name is not None:
            known = {name: chosen(name, known, "known" if target is None else "served there")}
    if as_json:
        described = (each for by_product in known.values() for each in by_product.items())
        print_json({"operators": [{"product": product, **plain(each)} for product, each in described]})
    elif name is not None:
        _show_one(known[name])
    else:
        _show_all(known)


def _of_server(target: str) -> dict[str, ByProduct]:
    with Client.from_env(**connection(target)) as client, waiting(f"waiting for {target}"):
        product = client.server_status().product
        return {each.name: {product: each} for each in client.list_operators()}


def _of_catalogue() -> dict[str, ByProduct]:
    return {
        spec.name: {
            product: operators_of(pb.ListOperatorsResponse(operators=[describe_operator(spec, product)]))[0]
            for product in Product
            if product in spec.products
        }
        for spec in OPERATORS.values()
    }


def _show_all(known: Mapping[str, ByProduct]) -> None:
    console = new_console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A program that reads it gets an operator in a line.
        console.width = _UNBOUNDED
    # `aclgrad operators NAME` has what a narrow terminal has no room for.
    headings = ["operator", "products", "dtypes", "dimensions", "kind"][: 3 if console.width < _ALL else 5]
    table = columns(" ".join(headings))
    # A name is to be copied, so that the other columns go on in further lines, if they have room.
    table.columns[0].no_wrap = console.width >= _WIDE
    for name, by_product in known.items():
        leading = [input for each in by_product.values() for input in each.inputs if input.name == each.leading]
        dtypes = dict.fromkeys(dtype for each in leading for dtype in _dtypes(each))
        kind, ranks = _kind(next(iter(by_product.values()))), _ranks(leading[0]) if leading else ""
        cells = (name, ", ".join(by_product), ", ".join(sorted(dtypes)), ranks, kind)
        table.add_row(*cells[: len(headings)])
    console.print(table)


def _show_one(by_product: ByProduct) -> None:
    each = next(iter(by_product.values()))
    known = OPERATORS.get(each.name)
    _print(f"{each.name} ({each.symbol}), on {', '.join(by_product)}")
    _print(each.summary, 4)
    _print(f"kind: {_kind(each)}", 4)
    if known is not None:
        _print(known.formula, 4)
    if each.reads_views:
        _print("Its device reads transposed inputs and slices as they are.", 4)
    for position, input in enumerate(each.inputs):
        # The client's methods have another name for CANN's `self`.
        parameter = " (parameter `input`)" if input.name == "self" else ""
        parameter += ", optional" if input.optional else ""
        on = {product: _taken(described.inputs[position]) for product, described in by_product.items()}
        _print(f"{input.name}{parameter}: {_ranks(input)} dimensions; {_by_product(on)}", 4)
        _print(input.summary, 8)
    for attribute in each.attributes:
        _print(f"{attribute.name}: {_attribute(attribute)}", 4)
        _print(attribute.summary, 8)
    for output in each.outputs:
        _print(f"returns {output.name}: {output.summary}", 4)


def _kind(each: OperatorDescription) -> str:
    return each.kind.name.lower() if each.kind else "of an unknown kind"


def _print(text: str, indent: int = 0) -> None:
    """Prints a paragraph: wrapped at words on a terminal, else one line."""
    console = new_console()
    width = console.width if console.is_terminal else sys.maxsize
    lead = " " * indent
    click.echo(textwrap.fill(text, max(width, 2 * indent), initial_indent=lead, subsequent_indent=lead))


def _by_product(texts: Mapping[str, str]) -> str:
    """Returns the common text of all products, or each text with its products."""
    products: dict[str, list[str]] = {}
    for product, text in texts.items():
        products.setdefault(text, []).append(product)
    if len(products) == 1:
        return next(iter(products))
    return "; ".join(f"{text} on {', '.join(those)}" for text, those in products.items())


def _taken(input: InputDescription) -> str:
    taken = ", ".join(_dtypes(input))
    if input.needed_for:
        return f"{taken}, or its shape without {' and '.join(input.needed_for)}"
    return f"{taken}, or its shape" if input.shape_only else taken


def _dtypes(input: InputDescription) -> Iterator[str]:
    yield from map(str, input.dtypes)
    yield from (f"DataType {number}" for number in input.unknown_dtypes)


def _ranks(input: InputDescription) -> str:
    return counts(input.ranks)


def _attribute(attribute: AttributeDescription) -> str:
    kind = attribute.kind.name.lower() if attribute.kind else "of an unknown kind"
    lengths = f" of {counts(attribute.lengths)}" if attribute.lengths else ""
    lengths += f" {' or '.join(attribute.choices)}" if attribute.choices else ""
    bounds = [("at least", attribute.minimum), ("at most", attribute.maximum)]
    limits = "".join(f", {word} {_number(bound)}" for word, bound in bounds if bound is not None)
    return f"{kind}{lengths}{limits}, {_default(attribute)}"


def _number(bound: float) -> str:
    return f"{bound:.0f}" if bound.is_integer() and abs(bound) < _EXACT else f"{bound:.6g}"


def _default(attribute: AttributeDescription) -> str:
    if attribute.required:
        return "required"
    if attribute.default is None:
        return "optional"
    value = attribute.default
    shown = (",".join(map(str, value)) or "empty") if isinstance(value, tuple) else value
    return f"{shown} by default"
