"""Checks a call against the operator table. What passes is complete, of legal types and shapes, and within limits."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from aclgrad.errors import (
    InputValuesRequiredError,
    InvalidFieldError,
    LimitExceededError,
    OperatorNotSupportedError,
    UnknownOperatorError,
    Violation,
)
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec, InputSpec, OperatorSpec
from aclgrad.operators.values import ValueRule
from aclgrad.products import Product
from aclgrad.tensors import SharedRange, TensorType, TensorView
from aclgrad.wire.limits import MAX_VIOLATIONS
from aclgrad.wire.messages import AttributeValue, OperatorCall, response_prefix
from aclgrad_server.plan import OperatorPlan

MAX_INT64 = 2**63 - 1


def plan_call(
    call: OperatorCall, product: Product, max_tensor_bytes: int, shape_only: bool | None = None
) -> OperatorPlan:
    """Returns the plan of a call, or raises the RequestError that says what is wrong and what would be right.

    `shape_only` is that of `InputSpec.takes_shape`.
    """
    spec = _find(call.operator, product)
    inputs = {tensor.name: tensor for tensor in call.inputs}
    _raise_if_any(_check_names("inputs", [tensor.name for tensor in call.inputs], [each.name for each in spec.inputs]))
    _raise_if_any(_check_names("attributes", list(call.attributes), *_attribute_names(spec)))
    attributes = {each.name: _normal(each, call.attributes.get(each.name, each.default)) for each in spec.attributes}
    _raise_if_any(violation for each in spec.inputs for violation in _check_input(each, inputs[each.name], product))
    _raise_if_any(violation for each in spec.attributes for violation in each.check(attributes[each.name]))
    arguments = Arguments({name: tensor.type for name, tensor in inputs.items()}, attributes)
    _raise_if_any(spec.check(arguments))
    output = spec.output.infer(arguments)
    ordered = tuple(inputs[each.name] for each in spec.inputs)
    rules = tuple(each.values(arguments, product) for each in spec.inputs)
    for tensor, rule in zip(ordered, rules, strict=True):
        _check_size(f"inputs[{tensor.name}].shape", tensor.type, max_tensor_bytes)
        if rule is not None:
            _check_size(f"inputs[{tensor.name}] on the device", rule.device_type(tensor.type), max_tensor_bytes)
    if _overflows(output):
        problem = f"would be {output}, whose size overflows 64 bits"
        raise LimitExceededError.of(Violation(f"outputs[{spec.output.name}]", problem, "ask for smaller sizes"))
    _check_size(f"outputs[{spec.output.name}]", output, max_tensor_bytes)
    for each in spec.inputs:
        _check_presence(each, inputs[each.name], arguments, product, shape_only)
    output_memory = _output_memory(call, spec.output.name, output)
    return OperatorPlan(
        spec,
        ordered,
        rules,
        tuple(attributes[each.name] for each in spec.attributes),
        output,
        output.size_bytes,
        output.size_bytes + sum(map(_device_bytes, ordered, rules)),
        any(tensor.type.element_count == 0 for tensor in ordered),
        output_memory is not None or any(isinstance(tensor.data, SharedRange) for tensor in ordered),
        response_prefix(spec.output.name, output),
        output_memory,
    )


def _output_memory(call: OperatorCall, name: str, output: TensorType) -> SharedRange | None:
    for other in call.output_memory:
        if other != name:
            remedy = f"the operator has the output {name}"
            raise InvalidFieldError.of(Violation(f"output_memory[{other}]", "is not known", remedy))
    memory = call.output_memory.get(name)
    if memory is not None and memory.nbytes != output.size_bytes:
        field = f"output_memory[{name}].size_bytes"
        problem = f"is {memory.nbytes} where {output} takes {output.size_bytes}"
        raise InvalidFieldError.of(Violation(field, problem, "send exactly the size of the output"))
    return memory


def _device_bytes(tensor: TensorView, rule: ValueRule | None) -> int:
    return (tensor.type if rule is None else rule.device_type(tensor.type)).size_bytes


def check_reply_size(field: str, size_bytes: int, limit_bytes: int) -> None:
    """Raises LimitExceededError for a reply that exceeds the limit of a message, before the reply is computed."""
    if size_bytes > limit_bytes:
        problem = f"makes a reply of {size_bytes} bytes and the limit of a message is {limit_bytes}"
        remedy = (
            "send a large call in chunks (ExecuteOperatorChunked) and fewer calls in one batch, "
            "or raise --max-message-bytes (ACLGRAD_MAX_MESSAGE_BYTES) of the server"
        )
        metadata = {"size": str(size_bytes), "max_message_bytes": str(limit_bytes)}
        raise LimitExceededError.of(Violation(field, problem, remedy), metadata=metadata)


def _raise_if_any(violations: Iterator[Violation]) -> None:
    found = tuple(islice(violations, MAX_VIOLATIONS))
    if found:
        raise InvalidFieldError.of(*found)


def _find(name: str, product: Product) -> OperatorSpec:
    spec = OPERATORS.get(name)
    if spec is None:
        remedy = f"call one of {', '.join(OPERATORS)}"
        raise UnknownOperatorError(
            f"operator {name!r} is not known; {remedy}", field="operator", remedy=remedy, metadata={"operator": name}
        )
    if product not in spec.products:
        served = ", ".join(sorted(spec.products))
        remedy = f"use a server with one of the products {served}"
        raise OperatorNotSupportedError(
            f"operator {name} does not exist on product {product}; {remedy}",
            field="operator",
            remedy=remedy,
            metadata={"operator": name, "product": product},
        )
    return spec


def _normal(spec: AttributeSpec, value: AttributeValue | None) -> AttributeValue:
    """Returns the value in the form of its kind: an integer may stand for a number, or for a list of one."""
    assert value is not None, f"{spec.name} is required and was found missing before"
    if isinstance(value, int) and not isinstance(value, bool):
        if spec.kind is AttributeKind.DOUBLE:
            return float(value)
        if spec.kind is AttributeKind.INTS and 1 in spec.lengths:
            return (value,)
    return value


def _attribute_names(spec: OperatorSpec) -> tuple[list[str], list[str]]:
    required = [each.name for each in spec.attributes if each.default is None]
    return required, [each.name for each in spec.attributes if each.default is not None]


def _check_names(kind: str, given: list[str], required: list[str], optional: Sequence[str] = ()) -> Iterator[Violation]:
    known = [*required, *optional]
    takes = f"the operator takes {', '.join(known)}" if known else f"the operator takes no {kind}"
    for name in required:
        if name not in given:
            yield Violation(f"{kind}[{name}]", "is missing", f"send it: {takes}")
    for name in dict.fromkeys(given):
        if name not in known:
            yield Violation(f"{kind}[{name}]", "is not known", f"leave it out: {takes}")
        elif given.count(name) > 1:
            yield Violation(f"{kind}[{name}]", f"is given {given.count(name)} times", "send it once")


def _check_input(spec: InputSpec, tensor: TensorView, product: Product) -> Iterator[Violation]:
    field = f"inputs[{spec.name}]"
    shape, dtypes = tensor.type.shape, spec.dtypes[product]
    if tensor.type.dtype.name not in dtypes:
        hint = ", and a shape as a tuple" if spec.unread_on is not None and len(shape) == 1 else ""
        remedy = f"send {' or '.join(dtypes)}{hint} (the server follows the rules of product {product})"
        yield Violation(f"{field}.data_type", f"is {tensor.type.dtype}", remedy)
    if len(shape) not in spec.ranks:
        ranks = " or ".join(map(str, spec.ranks))
        yield Violation(f"{field}.shape", f"has {len(shape)} dimensions", f"send {ranks} sizes")
    elif any(size < 0 for size in shape):
        yield Violation(f"{field}.shape", f"is {shape}, with a negative size", "send sizes of at least 0")
    elif _overflows(tensor.type):
        yield Violation(f"{field}.shape", f"is {shape}, whose size overflows 64 bits", "send smaller sizes")
    elif tensor.data is not None and tensor.data.nbytes != tensor.type.size_bytes:
        problem = f"has {tensor.data.nbytes} bytes where {tensor.type} takes {tensor.type.size_bytes}"
        yield Violation(f"{field}.data", problem, "send exactly the elements of the shape")


def _overflows(type: TensorType) -> bool:
    """Leaves zeros out: strides and window sums are computed from the other sizes even where nothing is stored."""
    return math.prod(max(size, 1) for size in type.shape) * type.dtype.itemsize > MAX_INT64


def _check_size(field: str, type: TensorType, limit: int) -> None:
    if type.size_bytes > limit:
        remedy = "send a smaller tensor, or raise --max-tensor-bytes (ACLGRAD_MAX_TENSOR_BYTES) of the server"
        problem = f"takes {type.size_bytes} bytes as {type} and the limit is {limit}"
        raise LimitExceededError.of(Violation(field, problem, remedy))


def _check_presence(
    spec: InputSpec, tensor: TensorView, arguments: Arguments, product: Product, shape_only: bool | None
) -> None:
    if tensor.data is not None or tensor.type.element_count == 0:
        return
    field = f"inputs[{spec.name}]"
    if spec.unread_on is None:
        raise InvalidFieldError.of(Violation(f"{field}.data", "is missing", "send the values: the operator reads them"))
    if not spec.takes_shape(product, shape_only) or (shape_only is None and spec.read_for(arguments)):
        remedy = "send the array instead of its shape"
        why = "the server was started with --shape-only off" if shape_only is False else f"{product} may read them here"
        raise InputValuesRequiredError(
            f"{field} came without values, and {why}; {remedy}",
            field=field,
            remedy=remedy,
            metadata={"product": product},
        )
