"""The operator table as operators of PyTorch: `torch.ops.aclgrad.NAME` makes the remote call.

An operator takes the inputs and attributes of its row, which of several outputs are wanted, and the number of a client;
one that is not wanted is returned empty. It is opaque to torch.compile, which traces the fake kernel instead: that one
gets the output's type from the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from aclgrad.bridges.served import served_operator
from aclgrad.errors import AclgradError
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, AttributeKind, OperatorSpec
from aclgrad.torch._tensors import array_of, client_of, tensor_of, type_of

_SCHEMA_TYPES: Final = {
    AttributeKind.BOOL: "bool",
    AttributeKind.INT: "SymInt",
    AttributeKind.DOUBLE: "float",
    AttributeKind.INTS: "SymInt[]",
    AttributeKind.TEXT: "str",
    AttributeKind.BOOLS: "bool[]",
    AttributeKind.DATA_TYPE: "ScalarType",
}


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SentCall:
    """One call as a client sent it, by wire names, and its gradients by the names of the outputs.

    That of a composite has the names of the function of `aclgrad.composites`.
    """

    operator: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any]
    gradients: Mapping[str, Array]


_SENT: Final[ContextVar[list[SentCall] | None]] = ContextVar("sent calls", default=None)


@contextmanager
def record_sent_calls() -> Iterator[list[SentCall]]:
    """Yields a list of the calls that this thread sends within the block; they hold their arrays."""
    sent: list[SentCall] = []
    token = _SENT.set(sent)
    try:
        yield sent
    finally:
        _SENT.reset(token)


def note_sent(
    operator: str, inputs: Mapping[str, Array], attributes: Mapping[str, Any], found: Mapping[str, Array]
) -> None:
    """Adds a call, or the gradients that several operators have computed, to the list of the innermost block."""
    if (sent := _SENT.get()) is not None:
        sent.append(SentCall(operator, inputs, attributes, found))


def _as_they_are_stored(gradient: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Returns the gradient with its channels last if one of the tensors of as many dims has them so, as PyTorch."""
    formats = {suggest_memory_format(each) for each in tensors if each.dim() == gradient.dim()}
    last = next(iter(formats - {torch.contiguous_format}), torch.contiguous_format)
    return gradient.contiguous(memory_format=last)


def _registered(spec: OperatorSpec) -> Any:
    is_several = len(spec.outputs) > 1
    parameters = [f"Tensor{'?' if each.is_optional else ''} {each.python_name}" for each in spec.inputs]
    parameters += [
        f"{_SCHEMA_TYPES[each.kind]}{'?' if each.is_optional else ''} {each.name}" for each in spec.attributes
    ]
    parameters += ["bool[] wanted"] if is_several else []
    returned = f"({', '.join(['Tensor'] * len(spec.outputs))})" if is_several else "Tensor"
    schema = f"({', '.join(parameters)}, SymInt client) -> {returned}"
    names = [each.name for each in spec.inputs]

    def split(values: tuple[Any, ...]) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        inputs = {name: value for name, value in zip(names, values, strict=False) if value is not None}
        attributes = zip(spec.attributes, values[len(names) :], strict=False)
        return inputs, {each.name: tuple(value) if isinstance(value, list) else value for each, value in attributes}

    def wanted_of(values: tuple[Any, ...]) -> list[str]:
        wanted = values[-2] if is_several else [True]
        return [each.name for each, is_wanted in zip(spec.outputs, wanted, strict=True) if is_wanted]

    def returned_of(values: tuple[Any, ...], found: Mapping[str, Tensor]) -> Any:
        empty = values[0].new_empty
        all_ = tuple(found[each.name] if each.name in found else empty(0) for each in spec.outputs)
        if spec.is_spatial:
            tensors = [each for each in values[1 : len(names)] if each is not None]
            all_ = tuple(_as_they_are_stored(each, tensors) for each in all_)
        return all_ if is_several else all_[0]

    def execute(*values: Any) -> Any:
        inputs, attributes = split(values)
        name, wanted = spec.name, wanted_of(values)
        arguments = Arguments({}, attributes, tuple(wanted))
        # The others are not fetched from their device.
        matter = {each.name for each in spec.inputs if each.matters(arguments)}
        arrays = {
            name: array_of(tensor if name in matter else tensor.new_zeros((), device="cpu").expand(tensor.shape))
            for name, tensor in inputs.items()
        }
        try:
            client = client_of(values[-1])
            name = served_operator(name, client)
            gradients = client.execute(name, arrays, attributes, outputs=wanted if is_several else None)
        except AclgradError as error:
            error.operator = name
            raise
        outputs = zip(spec.outputs, arrays_of(gradients), strict=True)
        found = {each.name: array for each, array in outputs if array is not None}
        note_sent(name, arrays, attributes, found)
        device = values[0].device
        return returned_of(values, {name: tensor_of(array).to(device) for name, array in found.items()})

    def infer(*values: Any) -> Any:
        inputs, attributes = split(values)
        arguments = Arguments({name: type_of(each) for name, each in inputs.items()}, attributes)
        types = {each.name: each.infer(arguments) for each in spec.outputs if each.name in wanted_of(values)}
        new = values[0].new_empty
        return returned_of(
            values, {name: new(type.shape, dtype=getattr(torch, type.dtype.name)) for name, type in types.items()}
        )

    operator = torch.library.custom_op(f"aclgrad::{spec.name}", execute, mutates_args=(), schema=schema)
    operator.register_fake(infer)
    return getattr(torch.ops.aclgrad, spec.name).default


GRADIENTS: Final = {name: _registered(spec) for name, spec in OPERATORS.items()}
