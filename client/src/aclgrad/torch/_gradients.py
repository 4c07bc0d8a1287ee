"""The operator table as operators of PyTorch: `torch.ops.aclgrad.NAME` makes the remote call.

An operator takes the inputs and attributes of its row, and the number of a client. It is opaque to torch.compile, which
traces the fake kernel instead: that one gets the output's type from the table.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad._client.max_pool2d import served_operator
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, AttributeKind, OperatorSpec
from aclgrad.torch._clients import client_of
from aclgrad.torch._tensors import array_of, tensor_of, type_of

_SCHEMA_TYPES: Final = {
    AttributeKind.BOOL: "bool",
    AttributeKind.INT: "SymInt",
    AttributeKind.DOUBLE: "float",
    AttributeKind.INTS: "SymInt[]",
}


def refuse_vmap(name: str) -> Callable[..., Any]:
    """Returns a vmap rule that raises an error with the remedy."""

    def refuse(*_: Any) -> Any:
        remedy = "give it the whole batch as one tensor, or use vmap outside of remote_backward"
        raise NotImplementedError(f"aclgrad::{name} cannot be vectorised by vmap; {remedy}")

    return refuse


def _register(spec: OperatorSpec) -> None:
    parameters = [f"Tensor {each.python_name}" for each in spec.inputs]
    parameters += [f"{_SCHEMA_TYPES[each.kind]} {each.name}" for each in spec.attributes]
    schema = f"({', '.join(parameters)}, SymInt client) -> Tensor"
    names = [each.name for each in spec.inputs]

    def split(values: tuple[Any, ...]) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        attributes = zip(spec.attributes, values[len(names) :], strict=True)
        tuples = {each.name: tuple(value) if isinstance(value, list) else value for each, value in attributes}
        return dict(zip(names, values, strict=False)), tuples

    def execute(*values: Any) -> Tensor:
        client = client_of(values[-1])
        inputs, attributes = split(values[:-1])
        arrays = {name: array_of(tensor) for name, tensor in inputs.items()}
        gradient = client.execute(served_operator(spec.name, client), arrays, attributes)
        return tensor_of(gradient).to(values[0].device)

    def infer(*values: Any) -> Tensor:
        inputs, attributes = split(values[:-1])
        output = spec.output.infer(Arguments({name: type_of(each) for name, each in inputs.items()}, attributes))
        return values[0].new_empty(output.shape, dtype=getattr(torch, output.dtype.name))

    operator = torch.library.custom_op(f"aclgrad::{spec.name}", execute, mutates_args=(), schema=schema)
    operator.register_fake(infer)
    operator.register_vmap(refuse_vmap(spec.name))


for _spec in OPERATORS.values():
    _register(_spec)
