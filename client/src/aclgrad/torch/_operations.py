"""The functions that PyTorch computes here and a server differentiates, as PyTorch operators.

A row is registered as `torch.ops.aclgrad.NAME`, which is opaque to torch.compile. The forward pass runs on the tensors'
device, the fake kernel on fake tensors. It raises an error if the server's product could not differentiate it.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

import torch

from aclgrad.bridges.served_operators import REFUSALS, served_by
from aclgrad.errors import AclgradError
from aclgrad.torch._account import CallSite, layer_of
from aclgrad.torch._row import Operation
from aclgrad.torch._rows import OPERATIONS
from aclgrad.torch._tensors import client_of, type_of


class Block(Protocol):
    """A block, which reroutes gradients to one client, by its number, and counts them."""

    number: int

    def note_compiled(self, site: CallSite) -> None: ...


class _Open(threading.local):
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.has_had_one = False
        """Whether this thread has entered a block itself."""
        self.has_node = False
        """Whether the running operation has a node in autograd's graph, where it is counted."""


OPEN: Final = _Open()
"""The open blocks of a thread, innermost last: code below autograd finds its account here."""


@contextmanager
def counted_by_node() -> Iterator[None]:
    """Within the block, operations are not counted when they run."""
    OPEN.has_node = True
    try:
        yield
    finally:
        OPEN.has_node = False


def note_compiled(function: str, number: int) -> None:
    """Counts an operation in a compiled graph, which has no node, for the client's innermost block."""
    for block in () if OPEN.has_node else reversed(OPEN.blocks):
        if block.number == number:
            block.note_compiled(CallSite(function, layer_of(sys._getframe(1)), None))  # noqa: SLF001
            return


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keeps the output in the input's dtype: autocast would make some float32, but operators take equal dtypes."""
    is_on = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if is_on else nullcontext()


def check_served(operation: Operation, values: Sequence[Any], output: Any) -> None:
    """Raises InvalidFieldError or OperatorNotSupportedError if the server would refuse the backward pass."""
    row, leading = operation.row, output[0] if isinstance(output, tuple) else output
    known = row.known(dict(zip(operation.names, values, strict=False)), output)
    known = operation.sent_types({**known, "grad_output": leading})
    spec, name = row.spec, row.operator
    others = {each.name: known.get(each.python_name) for each in spec.inputs if each.name != spec.leading}
    inputs = {spec.leading: leading, **{name: each for name, each in others.items() if each is not None}}
    given = ((each.name, known[each.name]) for each in spec.attributes if known[each.name] is not None)
    attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
    try:
        served = served_by(client_of(values[-1]))
        name = served.operator(name)
        served.check(name, {each: type_of(tensor) for each, tensor in inputs.items()}, attributes)
    except AclgradError as error:
        tell_of(error, name, row.function)
        raise


def tell_of(error: AclgradError, operator: str, function: str) -> None:
    """Returns the operator of a forward pass whose gradient the server does not serve, or was not asked for."""
    error.operator = operator
    if not isinstance(error, REFUSALS):
        site = CallSite(function, layer_of(sys._getframe(2)), None)  # noqa: SLF001
        error.message = f"{site}: {error.message}"


def _registered(operation: Operation) -> Any:
    def forward(*values: Any) -> Any:
        with without_autocast(values[0].device.type):
            output = operation.forward(*values[:-1])
        check_served(operation, values, output)
        note_compiled(operation.row.function, values[-1])
        return output

    def infer(*values: Any) -> Any:
        with without_autocast(values[0].device.type):
            return (operation.fake or operation.forward)(*values[:-1])

    schema = f"({operation.parameters}, SymInt client) -> {operation.returns}"
    torch.library.custom_op(f"aclgrad::{operation.name}", forward, mutates_args=(), schema=schema).register_fake(infer)
    return getattr(torch.ops.aclgrad, operation.name).default


FORWARD: Final = {name: _registered(each) for name, each in OPERATIONS.items()}
"""The PyTorch operators by the names of their rows."""
