"""Parts of a call in the native runtime's form."""

from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import Any

import aclgrad_native as native
from aclgrad.operators.spec import Arguments, AttributeKind, Constant, OperatorSpec, OutputSpec
from aclgrad.products import Product
from aclgrad.tensors import DType, TensorType, View
from aclgrad.wire.values import AttributeValue


@lru_cache
def kept(constant: Constant) -> native.Input:
    """Returns one native constant for all plans, so that a device has one copy of it."""
    type = constant.type
    return native.Input(type.shape, type.dtype.acl, constant=native.Constant(constant.data()))


def laned(type: TensorType, view: View | None, lanes: int) -> tuple[TensorType, View]:
    """Returns type and view of the tensor with each value repeated along a new last axis of size `lanes`."""
    whole = view or View(0)
    return TensorType(type.dtype, (*type.shape, lanes)), View(whole.offset, (*whole.strides_of(type.shape), 0))


def in_place(spec: OperatorSpec, number: int, arguments: Arguments, types: Mapping[str, TensorType]) -> native.InPlace:
    """Returns the native form of an input that the operator gets as a copy at the beginning of its output."""
    output = spec.outputs[number]
    whole = types[output.name]
    if output.view is None:
        return native.InPlace(number, whole.shape)
    shape, view = output.view(arguments)
    return native.InPlace(number, shape, native.View(view.offset, view.strides_of(shape), whole.element_count))


def native_attributes(spec: OperatorSpec, arguments: Arguments, product: Product) -> tuple[Any, ...]:
    if spec.passes is not None:
        return tuple(spec.passes(arguments, product))
    passed = [each for each in spec.attributes if each.is_passed]
    return tuple(_native_attribute(each.given(arguments, product), each.kind) for each in passed)


def _native_attribute(value: AttributeValue | None, kind: AttributeKind) -> Any:
    if isinstance(value, DType):
        return value.acl
    if kind is AttributeKind.SCALAR and isinstance(value, float):
        return native.Float(value)
    if kind is AttributeKind.BOOLS:
        return native.Bools(list(map(bool, value)) if isinstance(value, Sequence) else None)
    return value


def use_of(output: OutputSpec, wanted: Container[str]) -> native.OutputUse:
    if output.name in wanted:
        return native.OutputUse.RETURNED_WHOLE if output.always_written else native.OutputUse.RETURNED
    return native.OutputUse.NULL if output.is_nullable else native.OutputUse.SCRATCH
