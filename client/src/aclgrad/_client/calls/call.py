"""The call of an operator: from a caller's arguments to what is sent, without any input or output."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.arrays import Array, TensorLike, as_array
from aclgrad._client.calls.chunked import ChunkedCall
from aclgrad._client.calls.destination import NEW, ONE, Destination, Outputs
from aclgrad._client.calls.exchange import Exchange
from aclgrad._client.calls.requirements import LARGE_BYTES, Requirements
from aclgrad.errors import AclgradError, InputValuesRequiredError, InvalidFieldError
from aclgrad.operators.attributes import AttributeLike, plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.tensors import (
    DTYPES,
    TensorType,
    TensorView,
    array_of_view,
    dense_elements,
    input_of_array,
    type_of_array,
)
from aclgrad.wire.messages import OperatorCall, decode_request, decode_response, encode_request
from aclgrad.wire.scan import INDEX_BYTES
from aclgrad.wire.values import AttributeValue, checked_name

Input = TensorLike | tuple[int, ...]
"""An array, or a tuple of sizes: a tensor of that shape whose values the operator does not read."""
Inputs = Mapping[str, Input | None]
"""Inputs by wire name; None for one that is optional and left out."""

_Result = TypeVar("_Result")
_ATTRIBUTES: Final = {spec.name: {each.name: each for each in spec.attributes} for spec in OPERATORS.values()}
_OPTIONAL: Final = {spec.name: {each.name for each in spec.inputs if each.is_optional} for spec in OPERATORS.values()}
_DEFAULTS: Final = {spec.name: spec.defaults for spec in OPERATORS.values()}
_LATER: Final = TensorView("", TensorType(DTYPES["float32"], ()))
"""In place of a tensor whose dtype is not known yet."""


class Call(Exchange[Array]):
    """Executes one operator. It becomes bytes when it is sent, or before by `encode`."""

    method = "ExecuteOperator"
    __slots__ = (
        "_chunk_bytes",
        "_encoded",
        "_requirements",
        "_sent",
        "destination",
        "operator",
        "outputs",
        "rest_bytes",
        "withheld",
    )

    def __init__(
        self,
        operator: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None,
        requirements: Requirements,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Takes the arguments of `execute`; `outputs` names those that are wanted, by default all.

        An input that is None is left out. One that came as a shape has the dtype of the first input that is an array.
        Raises InvalidFieldError if an array or an attribute has no form on the wire, and for an `out` that does not
        fit.
        """
        if type(operator) is not str:
            checked_name("operator", operator)
        views, self.withheld = _views(operator, inputs, requirements.withheld.get(operator, ()))
        """`withheld` are the caller's arrays of which only the shape is sent."""
        self.operator = operator
        sent = OperatorCall(operator, views, _plain_attributes(operator, attributes), outputs=_wanted(outputs))
        self._sent: OperatorCall | None = sent
        self._encoded: bytes | None = None
        """In place of `_sent`: what is needed of it is decoded then."""
        self.rest_bytes = 0
        """The bytes of `_encoded` beside the data of tensors, as a server counts them: four for each tensor."""
        self.outputs = _outputs(sent)
        """Names and types of the wanted outputs; none where the call is not legal: the server will say why."""
        self.size_bytes = size_bytes(sent, self.outputs)
        self._requirements = requirements
        self._chunk_bytes: int | None = None
        """The size of chunks that a refusal led to."""
        spec = OPERATORS.get(operator)
        if out is None and (spec is None or len(spec.outputs) == 1):
            self.destination = NEW if spec is None else ONE
            return
        names = () if spec is None else [each.name for each in spec.outputs]
        self.destination = Destination(out, names, sent.outputs, operator)
        if self.outputs:
            self.destination.check(self.outputs)
        self.destination.check_apart(views)

    @property
    def sent(self) -> OperatorCall:
        """The call as it goes into a message."""
        return decode_request(self.request) if self._sent is None else self._sent

    @property
    def request(self) -> bytes:
        """The message to send; raises InvalidFieldError for an attribute that has no form on the wire."""
        return encode_request(self.sent) if self._encoded is None else self._encoded

    def encode(self) -> None:
        """Turns the call into bytes, as which it needs nothing of the caller's but `out`."""
        self._keep_encoded(self.sent)
        self._sent = None
        self.withheld = {name: array.copy() for name, array in self.withheld.items()}

    def _keep_encoded(self, sent: OperatorCall) -> None:
        sizes = [each.data.nbytes for each in sent.inputs if each.data is not None]
        self._encoded = encode_request(sent)
        self.rest_bytes = len(self._encoded) - sum(sizes) + INDEX_BYTES * len(sizes)

    def read(self, reply: bytes) -> Array:
        try:
            outputs = decode_response(reply)
            if self.destination is ONE and len(outputs) == 1:
                # The usual reply, without the steps that several outputs take.
                return array_of_view(outputs[0])
        except ValueError as error:
            raise unreadable_reply(error) from error
        return self.destination.read(outputs)

    def in_chunks(self) -> ChunkedCall[Array] | None:
        return self.chunks_for(self.size_bytes)

    def chunks_for(self, size_bytes: int) -> ChunkedCall[Array] | None:
        """Returns the call in chunks, or None if so many bytes of tensors go in a message."""
        if self._chunk_bytes is None and size_bytes <= self._requirements.tensor_bytes:
            return None
        return self.chunked(lambda outputs: outputs)

    def chunked(self, settle: Callable[[Array], _Result]) -> ChunkedCall[_Result]:
        """Returns the call in chunks, whose result is what `settle` makes of its outputs."""
        return ChunkedCall(self.sent, self._requirements.chunk_bytes, self.destination, settle)

    def amend(self, error: AclgradError) -> "Call | None":
        """Returns the call with all values if the server asks for them, and in chunks if a message was too large."""
        if isinstance(error, InputValuesRequiredError):
            self._requirements.require_values(self.operator)
            if not self.withheld:
                return None
            self.add_values()
            return self
        if not self._requirements.learn(error):
            return None
        before, self._chunk_bytes = self._chunk_bytes, self._requirements.chunk_bytes
        return self if before is None or self._chunk_bytes < before else None

    def add_values(self) -> None:
        """Has the values sent that were withheld; raises InvalidFieldError if `out` overlaps them."""
        sent, withheld = self.sent, self.withheld
        inputs = tuple(
            input_of_array(each.name, withheld[each.name]) if each.name in withheld else each for each in sent.inputs
        )
        self.destination.check_apart(inputs)
        sent = replace(sent, inputs=inputs)
        if self._encoded is None:
            self._sent = sent
        else:
            self._keep_encoded(sent)
        # Last, because other threads may run the same batch: what is not withheld has to be there.
        self.size_bytes, self.withheld = size_bytes(sent, self.outputs), {}


def copies_much(inputs: Inputs) -> bool:
    """Whether to make the call would copy more than an event loop should: arrays that are not as the wire has them."""
    if not isinstance(inputs, Mapping):
        return False
    return any(
        getattr(value, "nbytes", 0) > LARGE_BYTES
        and not (isinstance(value, np.ndarray) and dense_elements(value) is not None)
        for value in inputs.values()
    )


def size_bytes(call: OperatorCall, outputs: Sequence[TensorView]) -> int:
    """Returns the larger of what goes each way over the connection: what is in shared memory does not."""
    sent = received = 0
    for tensor in call.inputs:
        if tensor.data is not None:
            sent += tensor.data.nbytes
    for output in outputs:
        if output.name not in call.output_memory:
            received += output.type.size_bytes
    return max(sent, received)


def _views(
    operator: str, inputs: Inputs, unsent: frozenset[str] | tuple[()]
) -> tuple[tuple[TensorView, ...], dict[str, Array]]:
    """Returns the tensors of the inputs, and the arrays of those `unsent`."""
    _check_mapping("inputs", inputs, "input names to arrays or shapes")
    optional = _OPTIONAL.get(operator, ())
    tensors: dict[str, TensorView] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    withheld: dict[str, Array] = {}
    for name, value in inputs.items():
        if value is None and name in optional:
            continue
        if isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value):
            # Keeps its place: its dtype may be that of an array that comes later.
            tensors[name], shapes[name] = _LATER, value
            continue
        array = value if type(value) is np.ndarray else as_array(f"inputs[{name}]", value)
        if name in unsent:
            withheld[name] = array
            tensors[name] = TensorView(name, type_of_array(name, array))
        else:
            tensors[name] = input_of_array(name, array)
    if shapes:
        dtype = next((each.type.dtype for each in tensors.values() if each is not _LATER), None)
        if dtype is None:
            problem = "is a shape, and no other input is an array that tells the dtype"
            raise InvalidFieldError.at(f"inputs[{next(iter(shapes))}]", problem, "give at least one input as an array")
        for name, shape in shapes.items():
            tensors[name] = TensorView(name, TensorType(dtype, shape))
    return tuple(tensors.values()), withheld


def _outputs(call: OperatorCall) -> tuple[TensorView, ...]:
    spec = OPERATORS.get(call.operator)
    if spec is None:
        return ()
    types = {tensor.name: tensor.type for tensor in call.inputs}
    try:
        arguments = Arguments(types, {**_DEFAULTS[spec.name], **call.attributes})
        wanted = [each for each in spec.outputs if not call.outputs or each.name in call.outputs]
        found = [(each.name, each.infer(arguments)) for each in wanted]
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
