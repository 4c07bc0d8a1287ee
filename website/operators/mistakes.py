"""What an operator says of wrong calls: its picture's call with one thing changed, and the error of the validation."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from aclgrad.errors import RequestError, Violation
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.spec import AttributeKind, AttributeSpec, OperatorSpec
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.values import AttributeValue


def mistakes(typed: TypedCase) -> Iterator[tuple[str, Violation]]:
    """Yields wrong calls in words, each with what is said of it; a mistake that is none there is left out."""
    product = product_of(typed.spec)
    types, attributes = typed.arguments.inputs, dict(typed.case.attributes)
    for name, type in types.items():
        for what, wrong in _wrong_types(typed.spec, name, type, product):
            yield from _said(what, typed.spec, {**types, name: wrong}, attributes, product)
    for each in typed.spec.attributes:
        if each.is_required:
            left = {name: value for name, value in attributes.items() if name != each.name}
            yield from _said(f"no `{each.name}`", typed.spec, types, left, product)
        for value in _wrong_values(each, typed.attributes[each.name]):
            what = f"`{each.name}={value!r}`"
            yield from _said(what, typed.spec, types, {**attributes, each.name: value}, product)


def product_of(spec: OperatorSpec) -> Product:
    """Returns the product whose rules the page's examples follow."""
    return Product.ATLAS_A2 if Product.ATLAS_A2 in spec.products else min(spec.products)


def _said(
    what: str,
    spec: OperatorSpec,
    types: Mapping[str, TensorType],
    attributes: Mapping[str, AttributeValue],
    product: Product,
) -> Iterator[tuple[str, Violation]]:
    inputs = tuple(TensorView(name, type) for name, type in types.items())
    try:
        check_call(OperatorCall(spec.name, inputs, attributes), spec, product)
    except RequestError as error:
        yield what, error.violations[0]


def _wrong_types(spec: OperatorSpec, name: str, type: TensorType, product: Product) -> Iterator[tuple[str, TensorType]]:
    input = spec.input(name)
    shape = type.shape
    dtype = next(each for each in DTYPES if each not in input.dtypes[product])
    yield f"`{input.python_name}` of {dtype}", replace(type, dtype=DTYPES[dtype])
    if not shape:
        return
    yield f"`{input.python_name}` of shape {shape[-1:]}", replace(type, shape=shape[-1:])
    larger = (*shape[:-1], shape[-1] + 1)
    yield f"`{input.python_name}` of shape {larger}", replace(type, shape=larger)


def _wrong_values(spec: AttributeSpec, right: AttributeValue | None) -> Iterator[AttributeValue]:
    """Yields a list with a value too many, and the values just beyond the bounds that a person might reach."""
    values = right if isinstance(right, tuple) else (right,)
    if spec.kind is AttributeKind.INTS and len(values) + 1 not in spec.lengths:
        yield (*values, *values[-1:])
    for bound, step in ((spec.minimum, -1), (spec.maximum, 1)):
        if isinstance(bound, tuple) or bound is None or not abs(bound) < 2**30 or int(bound) != bound:
            continue
        beyond = int(bound) + step
        is_list = spec.kind is AttributeKind.INTS
        yield (beyond,) * max(len(values), 1) if is_list else spec.kind.types[0](beyond)  # type: ignore[call-arg,arg-type]
