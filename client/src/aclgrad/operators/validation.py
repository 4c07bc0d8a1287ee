"""Checks a call against the operator table: names, dtypes, ranks, sizes, attributes, and how they fit each other."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from aclgrad.errors import InvalidFieldError, OperatorNotSupportedError, RequestError, UnknownOperatorError, Violation
from aclgrad.operators.attributes import plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, counts
from aclgrad.products import Product
from aclgrad.tensors import TensorType, TensorView, View
from aclgrad.wire.limits import MAX_VIOLATIONS
from aclgrad.wire.messages import OperatorCall

MAX_INT64 = 2**63 - 1
SIMILAR_LETTERS = 8
"""Common first letters of similar operators' names; families share prefixes."""
SIMILAR_ARGUMENT_LETTERS = 3
_MOST_NAMED = 16


def find_operator(name: str, product: Product) -> OperatorSpec:
    """Returns the operator of this name; raises a RequestError if it does not exist, or not on this product."""
    spec = OPERATORS.get(name)
    if spec is None:
        similar = _similar(name, OPERATORS, SIMILAR_LETTERS)
        remedy = (
            f"did you mean {' or '.join(similar)}?" if similar else "list_operators (ListOperators) returns the names"
        )
        raise UnknownOperatorError(
            f"operator {name!r} is not known", field="operator", remedy=remedy, metadata={"operator": name}
        )
    if product not in spec.products:
        raise OperatorNotSupportedError(
            f"operator {name} does not exist on product {product}",
            field="operator",
            remedy=f"use a server with one of the products {', '.join(sorted(spec.products))}",
            metadata={"operator": name, "product": product},
        )
    return spec


def call_alone(call: OperatorCall) -> OperatorCall:
    """Returns a single call, without outputs that only later steps of a program could read."""
    spec = OPERATORS.get(call.operator)
    if spec is None or spec.returned == spec.outputs:
        return call
    returned = tuple(each.name for each in spec.returned)
    for name in call.outputs:
        if name not in returned and name in [each.name for each in spec.outputs]:
            problem = "has a form of the device's own, and there is no later step that reads it"
            raise InvalidFieldError.at(f"outputs[{name}]", problem, "leave it out, or use it in a program")
    return replace(call, outputs=call.outputs or returned)


def check_call(call: OperatorCall, spec: OperatorSpec, product: Product) -> Arguments:
    """Returns the complete arguments of a call; raises InvalidFieldError with the remedy."""
    inputs = {tensor.name: tensor for tensor in call.inputs}
    specs = spec.inputs_of(inputs)
    required = [each.name for each in spec.attributes if each.is_required]
    optional = [each.name for each in spec.attributes if not each.is_required]
    python_names = {each.python_name: each.name for each in specs}
    needed = [each.name for each in specs if not each.is_optional]
    others = [each.name for each in specs if each.is_optional]
    refused = spec.refused
    _raise_if_any(_check_names("inputs", [each.name for each in call.inputs], needed, python_names, others, refused))
    _raise_if_any(_check_names("attributes", list(call.attributes), required, {}, optional, refused))
    _raise_if_any(_check_names("outputs", list(call.outputs), [], {}, [each.name for each in spec.outputs], refused))
    attributes = {
        each.name: each.default
        if each.name not in call.attributes
        else plain_attribute(each.name, call.attributes[each.name], each)
        for each in spec.attributes
    }
    given = [each for each in specs if each.name in inputs]
    _raise_if_any(violation for each in given for violation in _check_input(each, inputs[each.name], product))
    _raise_if_any(violation for each in spec.attributes for violation in each.check(attributes[each.name]))
    arguments = Arguments({name: tensor.type for name, tensor in inputs.items()}, attributes, call.outputs)
    _raise_if_any(spec.check(arguments, product))
    return arguments


def check_on_any_product(call: OperatorCall, spec: OperatorSpec) -> None:
    """Raises a RequestError if every product refuses the call; the server decides about others."""
    refusals: dict[str, list[str]] = {}
    for product in sorted(spec.products):
        try:
            check_call(call, spec, product)
        except RequestError as refusal:
            # The server's product is not known yet.
            refusals.setdefault(refusal.message.replace(f" {rules_of(product)}", ""), []).append(product)
        else:
            return
    if len(refusals) == 1:
        raise RequestError(*refusals)
    each = "; ".join(f"on {', '.join(products)}: {refusal}" for refusal, products in refusals.items())
    raise RequestError(f"every product refuses this call: {each}")


def rules_of(product: Product) -> str:
    """Returns the note that a remedy is for this product; others may take more or less."""
    return f"(the server follows the rules of product {product})"


def overflows(type: TensorType) -> bool:
    """Counts a size of 0 as 1: strides and window sums are computed from the other sizes even of an empty tensor."""
    return math.prod(max(size, 1) for size in type.shape) * type.dtype.itemsize > MAX_INT64


def _raise_if_any(violations: Iterator[Violation]) -> None:
    found = tuple(islice(violations, MAX_VIOLATIONS))
    if found:
        raise InvalidFieldError.of(*found)


def _check_names(
    kind: str,
    given: list[str],
    required: list[str],
    aliases: Mapping[str, str],
    optional: Sequence[str] = (),
    refused: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Violation]:
    known = [*required, *optional]
    takes = "returns" if kind == "outputs" else "takes"
    named = known if len(known) <= _MOST_NAMED else [*known[:2], "...", known[-1]]
    takes = f"the operator {takes} {', '.join(named)}" if known else f"the operator takes no {kind}"
    free = [name for name in known if name not in given]
    unknown: dict[str, str] = {}
    for name in dict.fromkeys(given):
        if name not in known:
            alias = aliases.get(name)
            meant = [alias] if alias in free else _similar(name, free, SIMILAR_ARGUMENT_LETTERS)
            unknown[name] = f"call it {' or '.join(meant)}" if meant else "leave it out"
            free = [each for each in free if each not in meant]
    for name in required:
        if name in free:
            yield Violation(f"{kind}[{name}]", "is missing", f"send it: {takes}")
    for name, remedy in unknown.items():
        if name in refused:
            yield Violation(f"{kind}[{name}]", f"is not served: {refused[name]}", "leave it out")
        else:
            yield Violation(f"{kind}[{name}]", "is not known", f"{remedy}: {takes}")
    for name in known:
        if given.count(name) > 1:
            yield Violation(f"{kind}[{name}]", f"is given {given.count(name)} times", "send it once")


def _similar(name: str, known: Iterable[str], letter_count: int) -> list[str]:
    """Compares only the first letters: a search by similarity would block the server's event loop for 1 ms."""
    return [each for each in known if name[:letter_count] == each[:letter_count]]


def _check_input(spec: InputSpec, tensor: TensorView, product: Product) -> Iterator[Violation]:
    field = f"inputs[{spec.name}]"
    shape, dtypes = tensor.type.shape, spec.dtypes[product]
    if tensor.type.dtype.name not in dtypes:
        hint = ", and a shape as a tuple" if spec.may_be_shape and len(shape) == 1 else ""
        remedy = f"send {' or '.join(dtypes)}{hint} {rules_of(product)}"
        yield Violation(f"{field}.data_type", f"is {tensor.type.dtype}", remedy)
    if len(shape) not in spec.ranks:
        yield Violation(f"{field}.shape", f"has {len(shape)} dimensions", f"send {counts(spec.ranks)} sizes")
    elif any(size < 0 for size in shape):
        yield Violation(f"{field}.shape", f"is {shape}, with a negative size", "send sizes of at least 0")
    elif overflows(tensor.type):
        yield Violation(f"{field}.shape", f"is {shape}, whose size overflows 64 bits", "send smaller sizes")
    elif tensor.view is not None:
        yield from _check_view(f"{field}.view", tensor, tensor.view)
    elif tensor.source.has_values and tensor.source.nbytes != tensor.type.size_bytes:
        problem = f"has {tensor.source.nbytes} bytes, but {tensor.type} takes {tensor.type.size_bytes}"
        yield Violation(f"{field}.data", problem, "send exactly the elements of the shape, or a view")


def _check_view(field: str, tensor: TensorView, view: View) -> Iterator[Violation]:
    """No element lies outside of the bytes."""
    shape, itemsize = tensor.type.shape, tensor.type.dtype.itemsize
    if not tensor.source.has_values and tensor.type.element_count:
        yield Violation(field, "lies over no values", "send the values, or leave the view out")
    elif view.strides and len(view.strides) != len(shape):
        yield Violation(f"{field}.strides", f"has {len(view.strides)} strides", f"send {len(shape)}, one for each size")
    elif min(view.offset, *view.strides, 0) < 0:
        problem = f"has the offset {view.offset} and the strides {view.strides}, of which one is negative"
        yield Violation(field, problem, "send a copy of what is reversed")
    elif tensor.type.element_count and tensor.source.nbytes % itemsize:
        problem = f"has {tensor.source.nbytes} bytes, which are no whole number of {tensor.type.dtype}"
        yield Violation(field.removesuffix("view") + "data", problem, f"send a multiple of {itemsize} bytes")
    elif view.end(shape) * itemsize > tensor.source.nbytes:
        problem = f"ends at element {view.end(shape)}, and the bytes hold {tensor.source.nbytes // itemsize}"
        yield Violation(field, problem, "send the bytes up to the last element, or another offset or strides")
