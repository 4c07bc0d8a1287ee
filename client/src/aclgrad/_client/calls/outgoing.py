"""From a caller's arguments to the call that is sent, without any input or output: both clients share it."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from aclgrad._client.calls.arrays import Array, TensorLike, as_array
from aclgrad.errors import InvalidFieldError
from aclgrad.operators.attributes import AttributeLike, plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.tensors import DType, TensorType, TensorView, type_of_array, view_of_array
from aclgrad.wire.messages import AttributeValue, OperatorCall, checked_name

Input = TensorLike | tuple[int, ...]
"""An array, or a tuple of sizes: a tensor of that shape whose values the operator does not read."""
Inputs = Mapping[str, Input | None]
"""Inputs by wire name; None for one that is optional and left out."""

LARGE_BYTES: Final = 2**20 + 2**12
"""More bytes are not copied on an event loop, and may not fit into the buffers of a connection: a tensor of 1 MiB is
not large with what describes it."""
_ATTRIBUTES = {spec.name: {each.name: each for each in spec.attributes} for spec in OPERATORS.values()}
_OPTIONAL = {spec.name: {each.name for each in spec.inputs if each.is_optional} for spec in OPERATORS.values()}
_DEFAULTS = {spec.name: spec.defaults for spec in OPERATORS.values()}


class SentValues:
    """Of which inputs one client sends the values: of those that the operator reads, and of all where it was asked to.

    One target may be served by several products in turn, so what one server asked for holds for the whole client.
    """

    def __init__(self, *, shape_only: bool) -> None:
        self._shape_only = shape_only
        # Threads share it: adding to a set and looking into it are atomic.
        self._required: set[str] = set()

    def withheld(self, operator: str) -> frozenset[str]:
        """Returns the names of the inputs whose shape is sent alone, even where there is an array."""
        spec = OPERATORS.get(operator)
        if spec is None or not self._shape_only or operator in self._required:
            return frozenset()
        return frozenset(each.name for each in spec.inputs if each.unread_on is not None)

    def require(self, operator: str) -> None:
        """Remembers that the server wants the values of every input."""
        self._required.add(operator)


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """The call of an operator as it is to be sent, and the caller's arrays of which only the shape is."""

    call: OperatorCall
    withheld: Mapping[str, Array]
    outputs: tuple[TensorView, ...]
    """Names and types of the wanted outputs; none where the call is not legal: the server will say why."""

    @property
    def size_bytes(self) -> int:
        """The larger of what goes each way over the connection: what is in shared memory does not."""
        sent = sum(tensor.data.nbytes for tensor in self.call.inputs if tensor.data is not None)
        received = [each for each in self.outputs if each.name not in self.call.output_memory]
        return max(sent, sum(each.type.size_bytes for each in received))


def copies_much(inputs: Inputs) -> bool:
    """Whether planning the call would copy more than an event loop should: arrays that are not as the wire has them."""
    if not isinstance(inputs, Mapping):
        return False
    return any(
        getattr(value, "nbytes", 0) > LARGE_BYTES
        and not (isinstance(value, np.ndarray) and value.flags.c_contiguous and value.dtype.isnative)
        for value in inputs.values()
    )


def outgoing_call(
    operator: str,
    inputs: Inputs,
    attributes: Mapping[str, AttributeLike] | None,
    sent: SentValues,
    outputs: Sequence[str] | None = None,
) -> OutgoingCall:
    """Returns the call of one operator; `outputs` names those that are wanted, by default all.

    An input that is None is left out. One that came as a shape has the dtype of the first input that is an array.
    Raises InvalidFieldError if an array or an attribute has no form on the wire.
    """
    if type(operator) is not str:
        checked_name("operator", operator)
    _check_mapping("inputs", inputs, "input names to arrays or shapes")
    optional = _OPTIONAL.get(operator, ())
    inputs = {name: value for name, value in inputs.items() if value is not None or name not in optional}
    arrays = {name: as_array(f"inputs[{name}]", value) for name, value in inputs.items() if not _is_shape(value)}
    unsent = sent.withheld(operator)
    withheld = {name: array for name, array in arrays.items() if name in unsent}
    tensors = {
        name: TensorView(name, type_of_array(name, array)) if name in withheld else view_of_array(name, array)
        for name, array in arrays.items()
    }
    for name, value in inputs.items():
        if name not in tensors:
            dtype = _shape_only_dtype(name, [each.type.dtype for each in tensors.values()])
            tensors[name] = TensorView(name, TensorType(dtype, value))  # type: ignore[arg-type]
    views = tuple(tensors[name] for name in inputs)
    call = OperatorCall(operator, views, _plain_attributes(operator, attributes), outputs=_wanted(outputs))
    return OutgoingCall(call, withheld, _outputs(call))


def _outputs(call: OperatorCall) -> tuple[TensorView, ...]:
    spec = OPERATORS.get(call.operator)
    if spec is None:
        return ()
    types = {tensor.name: tensor.type for tensor in call.inputs}
    try:
        arguments = Arguments(types, {**_DEFAULTS[spec.name], **call.attributes})
        wanted = call.outputs or [each.name for each in spec.outputs]
        found = [(each.name, each.infer(arguments)) for each in spec.outputs if each.name in wanted]
        return tuple(
            TensorView(name, TensorType(type.dtype, tuple(map(operator.index, type.shape)))) for name, type in found
        )
    except (LookupError, TypeError, ValueError):
        return ()


def _wanted(outputs: Sequence[str] | None) -> tuple[str, ...]:
    if outputs is None:
        return ()
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or not outputs:
        problem = f"is {outputs!r}, which names no outputs"
        raise InvalidFieldError.at("outputs", problem, "give a sequence of names, or leave it out for all outputs")
    return tuple(outputs)


def _plain_attributes(operator: str, attributes: Mapping[str, AttributeLike] | None) -> dict[str, AttributeValue]:
    if attributes is None:
        return {}
    _check_mapping("attributes", attributes, "attribute names to values")
    specs = _ATTRIBUTES.get(operator, {})
    return {name: plain_attribute(name, value, specs.get(name)) for name, value in attributes.items()}


def _check_mapping(field: str, value: object, of: str) -> None:
    # First the usual: an abstract class takes longer to ask.
    if type(value) is not dict and not isinstance(value, Mapping):
        problem, remedy = f"is a {type(value).__name__}", f"give a mapping from {of}"
        raise InvalidFieldError.at(field, problem, remedy)


def _is_shape(value: Input | None) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value)


def _shape_only_dtype(name: str, dtypes: Sequence[DType]) -> DType:
    if not dtypes:
        problem = "is a shape, and no other input is an array that tells the dtype"
        raise InvalidFieldError.at(f"inputs[{name}]", problem, "give at least one input as an array")
    return dtypes[0]
