"""The operator table as operators of PyTorch: `torch.ops.aclgrad.NAME` makes the remote call.

An operator takes the inputs and attributes of its row, flags for several outputs, and a client's number; unwanted
outputs are empty. It is opaque to torch.compile, which traces the fake kernel instead; that takes the output's type
from the table.
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
from torch._subclasses.fake_tensor import FakeTensor

from aclgrad._client.sync.client import Client, Program
from aclgrad.bridges.served_operators import served_operator
from aclgrad.errors import AclgradError
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, AttributeKind, OperatorSpec
from aclgrad.torch._tensors import array_of, client_of, tensor_of, type_of

_SCHEMA_TYPES: Final = {
    AttributeKind.BOOL: "bool",
    AttributeKind.INT: "SymInt",
    AttributeKind.DOUBLE: "float",
    AttributeKind.SCALAR: "Scalar",
    AttributeKind.INTS: "SymInt[]",
    AttributeKind.TEXT: "str",
    AttributeKind.BOOLS: "bool[]",
    AttributeKind.DATA_TYPE: "ScalarType",
}


Array = np.ndarray[Any, Any]
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SentCall:
    """One sent call by wire names, and its gradients by the names of the outputs.

    A composite's call has the names of the function of `aclgrad.composites`.
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


def is_recorded() -> bool:
    """Returns whether a block records the calls that this thread sends."""
    return _SENT.get() is not None


def note_sent(
    operator: str, inputs: Mapping[str, Array], attributes: Mapping[str, Any], found: Mapping[str, Array]
) -> None:
    """Adds a call, or the gradients of several operators, to the list of the innermost block."""
    if (sent := _SENT.get()) is not None:
        sent.append(SentCall(operator, inputs, attributes, found))


def _as_they_are_stored(gradient: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Returns the gradient in channels-last format if a tensor of the same rank has it, like PyTorch."""
    formats = {suggest_memory_format(each) for each in tensors if each.dim() == gradient.dim()}
    last = next(iter(formats - {torch.contiguous_format}), torch.contiguous_format)
    return gradient.contiguous(memory_format=last)


class _Calls:
    """The calls of an operator, each with the arguments of the PyTorch operator."""

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec = spec
        self._is_several = len(spec.outputs) > 1
        self._names = [each.name for each in spec.inputs]

    def registered(self) -> Any:
        spec, is_several = self.spec, self._is_several
        parameters = [f"Tensor{'?' if each.is_optional else ''} {each.python_name}" for each in spec.inputs]
        parameters += [
            f"{_SCHEMA_TYPES[each.kind]}{'?' if each.is_optional else ''} {each.name}" for each in spec.attributes
        ]
        parameters += ["bool[] wanted"] if is_several else []
        returned = f"({', '.join(['Tensor'] * len(spec.outputs))})" if is_several else "Tensor"
        schema = f"({', '.join(parameters)}, SymInt client) -> {returned}"

        def execute(*values: Any) -> Any:
            return self._run(client_of(values[-1]), [values])[0]

        operator = torch.library.custom_op(f"aclgrad::{spec.name}", execute, mutates_args=(), schema=schema)
        operator.register_fake(self._infer)
        return getattr(torch.ops.aclgrad, spec.name).default

    def in_one_message(self, calls: Sequence[Values], function: str) -> list[Any]:
        """Returns the outputs of the calls, which have one client."""
        if len(calls) == 1 or any(isinstance(each[0], FakeTensor) or each[0].is_meta for each in calls):
            return [GRADIENTS[self.spec.name](*values) for values in calls]
        program = client_of(calls[0][-1]).program()
        program.place = lambda: f"{self.spec.name} of {function}"
        return self._run(program, calls)

    def _run(self, target: Client | Program, calls: Sequence[Values]) -> list[Any]:
        name = self.spec.name
        sent = [(*self._split(values), self._wanted(values)) for values in calls]
        arrays = [self._arrays(*each) for each in sent]
        try:
            if isinstance(target, Client):
                name = served_operator(name, target)
            results: list[Any] = [
                target.execute(name, inputs, attributes, outputs=wanted if self._is_several else None)
                for inputs, (_, attributes, wanted) in zip(arrays, sent, strict=True)
            ]
            if isinstance(target, Program):
                results = target.run(*results)
        except AclgradError as error:
            error.operator = name
            raise
        returned = []
        for values, inputs, (_, attributes, _), result in zip(calls, arrays, sent, results, strict=True):
            outputs = zip(self.spec.outputs, arrays_of(result), strict=True)
            found = {each.name: array for each, array in outputs if array is not None}
            note_sent(name, inputs, attributes, found)
            device = values[0].device
            tensors = {name: tensor_of(array).to(device) for name, array in found.items()}
            returned.append(self._returned(values, tensors))
        return returned

    def _infer(self, *values: Any) -> Any:
        inputs, attributes = self._split(values)
        arguments = Arguments({name: type_of(each) for name, each in inputs.items()}, attributes)
        wanted, new = self._wanted(values), values[0].new_empty
        types = {each.name: each.infer(arguments) for each in self.spec.outputs if each.name in wanted}
        return self._returned(
            values, {name: new(type.shape, dtype=getattr(torch, type.dtype.name)) for name, type in types.items()}
        )

    def _split(self, values: Values) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        inputs = {name: value for name, value in zip(self._names, values, strict=False) if value is not None}
        attributes = zip(self.spec.attributes, values[len(self._names) :], strict=False)
        return inputs, {each.name: tuple(value) if isinstance(value, list) else value for each, value in attributes}

    def _wanted(self, values: Values) -> list[str]:
        wanted = values[-2] if self._is_several else [True]
        return [each.name for each, is_wanted in zip(self.spec.outputs, wanted, strict=True) if is_wanted]

    def _arrays(
        self, inputs: Mapping[str, Tensor], attributes: Mapping[str, Any], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """Returns the arrays to send; unneeded ones are not fetched from their device."""
        arguments = Arguments({}, attributes, tuple(wanted))
        matter = {each.name for each in self.spec.inputs if each.matters(arguments)}
        return {
            name: array_of(tensor if name in matter else tensor.new_zeros((), device="cpu").expand(tensor.shape))
            for name, tensor in inputs.items()
        }

    def _returned(self, values: Values, found: Mapping[str, Tensor]) -> Any:
        empty = values[0].new_empty
        all_ = tuple(found[each.name] if each.name in found else empty(0) for each in self.spec.outputs)
        if self.spec.is_spatial:
            tensors = [each for each in values[1 : len(self._names)] if each is not None]
            all_ = tuple(_as_they_are_stored(each, tensors) for each in all_)
        return all_ if self._is_several else all_[0]


CALLS: Final = {name: _Calls(spec) for name, spec in OPERATORS.items()}
GRADIENTS: Final = {name: calls.registered() for name, calls in CALLS.items()}
