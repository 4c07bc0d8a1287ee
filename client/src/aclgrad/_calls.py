"""What a call sends and how its reply or its error is read, without any input or output: both clients share it."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from numpy.typing import ArrayLike

from aclgrad import errors
from aclgrad.errors import AclgradError, InputValuesRequiredError, InvalidFieldError, Violation
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.tensors import DType, TensorType, TensorView, array_of_view, type_of_array, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import AttributeValue, OperatorCall, decode_response, encode_request

Array = np.ndarray[Any, Any]
Input = ArrayLike | tuple[int, ...]
"""An array, or a tuple of sizes: a tensor of that shape whose values the operator does not read."""

MAX_TIMEOUT_S = 1e8
SERVICE = "/aclgrad.v1.OperatorService/"
_Result = TypeVar("_Result")
_Result_co = TypeVar("_Result_co", covariant=True)


class Call(Protocol[_Result_co]):
    """One call: its method, its bytes, and how to read the bytes that come back.

    `amend` gives the call to make at once in its place where an error tells what it lacked, else None.
    """

    @property
    def method(self) -> str: ...

    @property
    def request(self) -> bytes: ...

    def read(self, reply: bytes) -> _Result_co: ...

    def amend(self, error: AclgradError) -> "Call[_Result_co] | None": ...


@dataclass(frozen=True, slots=True)
class PlainCall(Generic[_Result]):
    """A call that nothing can be mended about."""

    method: str
    request: bytes
    read: Callable[[bytes], _Result]

    def amend(self, error: AclgradError) -> None:
        return None


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
class PlannedCall:
    """The call of an operator as it is to be sent, and the arrays among its inputs whose values are withheld."""

    call: OperatorCall
    withheld: frozenset[str]

    @property
    def size_bytes(self) -> int:
        """The larger of what goes each way over the connection: what is in shared memory does not."""
        sent = sum(tensor.data.nbytes for tensor in self.call.inputs if isinstance(tensor.data, memoryview))
        output = None if self.call.output_memory else self.output()
        return max(sent, output.size_bytes if output else 0)

    def output(self) -> TensorType | None:
        """Returns the type of the output, or None where the call is not legal: the server will say why."""
        spec = OPERATORS.get(self.call.operator)
        if spec is None:
            return None
        defaults = {each.name: each.default for each in spec.attributes if each.default is not None}
        types = {tensor.name: tensor.type for tensor in self.call.inputs}
        try:
            type = spec.output.infer(Arguments(types, defaults | dict(self.call.attributes)))
            return TensorType(type.dtype, tuple(map(operator.index, type.shape)))
        except (LookupError, TypeError, ValueError):
            return None


def planned_call(
    operator: str,
    inputs: Mapping[str, Input],
    attributes: Mapping[str, AttributeValue] | None,
    sent: SentValues,
) -> PlannedCall:
    """Returns the call of one operator.

    An input that came as a shape has the dtype of the first input that is an array. Raises InvalidFieldError where an
    array has no form on the wire.
    """
    arrays = {name: _array(name, value) for name, value in inputs.items() if not _is_shape(value)}
    types = {name: type_of_array(name, array) for name, array in arrays.items()}
    for name, value in inputs.items():
        if name not in types:
            dtype = _shape_only_dtype(name, [each.dtype for each in types.values()])
            types[name] = TensorType(dtype, value)  # type: ignore[arg-type]
    withheld = sent.withheld(operator) & arrays.keys()
    views = tuple(
        view_of_array(name, arrays[name]) if name in arrays and name not in withheld else TensorView(name, types[name])
        for name in inputs
    )
    return PlannedCall(OperatorCall(operator, views, dict(attributes or {})), frozenset(withheld))


class ExecuteCall:
    """The call of one operator; it becomes bytes only when it is sent, and in one of several ways."""

    method = "ExecuteOperator"

    def __init__(
        self,
        operator: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeValue] | None,
        sent: SentValues,
    ) -> None:
        """Raises InvalidFieldError as `planned_call` does."""
        self._arguments = (operator, inputs, attributes)
        self._sent = sent
        self.planned = planned_call(operator, inputs, attributes, sent)

    @property
    def request(self) -> bytes:
        """The call as one message; raises InvalidFieldError for an attribute that has no form on the wire."""
        return encode_request(self.planned.call)

    def read(self, reply: bytes) -> Array:
        """Returns the gradient in a reply; raises ServerFaultError for bytes that are none."""
        try:
            return gradient_of(decode_response(reply))
        except ValueError as error:
            raise errors.ServerFaultError(f"the reply of the server cannot be read: {error}") from error

    def amend(self, error: AclgradError) -> "ExecuteCall | None":
        """Returns the call with all values where the server asks for them."""
        if not isinstance(error, InputValuesRequiredError):
            return None
        self._sent.require(self._arguments[0])
        return ExecuteCall(*self._arguments, self._sent) if self.planned.withheld else None


def gradient_of(outputs: tuple[TensorView, ...]) -> Array:
    """Returns the only output; raises ServerFaultError where it is no such thing."""
    try:
        (output,) = outputs
        return array_of_view(output)
    except ValueError as error:
        raise errors.ServerFaultError(f"the reply of the server cannot be read: {error}") from error


def time_limit(timeout_s: float | None) -> float | None:
    """Returns the limit as grpc takes it: none beyond what its clock can count."""
    return None if timeout_s is None or timeout_s > MAX_TIMEOUT_S else timeout_s


def list_operators_call() -> PlainCall[list[pb.OperatorDescription]]:
    """Returns the call for the operators that the server serves."""
    return PlainCall(
        "ListOperators",
        pb.ListOperatorsRequest().SerializeToString(),
        lambda reply: list(pb.ListOperatorsResponse.FromString(reply).operators),
    )


def server_status_call() -> PlainCall[pb.GetServerStatusResponse]:
    """Returns the call for the state of the server."""
    return PlainCall(
        "GetServerStatus", pb.GetServerStatusRequest().SerializeToString(), pb.GetServerStatusResponse.FromString
    )


def _array(name: str, value: Input) -> Array:
    try:
        return np.asarray(value)
    except Exception as error:  # whatever the object's own conversion raises
        problem = f"is no array: {error}"
        raise InvalidFieldError.of(Violation(f"inputs[{name}]", problem, "give an array or a shape")) from error


def _is_shape(value: Input) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value)


def _shape_only_dtype(name: str, dtypes: Sequence[DType]) -> DType:
    if not dtypes:
        problem = "is a shape, and no other input is an array that tells the dtype"
        raise InvalidFieldError.of(Violation(f"inputs[{name}]", problem, "give at least one input as an array"))
    return dtypes[0]


# ------------------------------------------------------------------------------------------------------- errors

_STATUS_DETAILS = "grpc-status-details-bin"
_CANCELLED_HERE = ("Channel closed!", "Channel closed.", "Locally cancelled by application!")
_WRITE_FAILED = "Internal error from Core"
"""What grpc.aio says where the server ended a call while its messages were being written."""
_TOO_LARGE = re.compile(r"message larger than max( \((?P<size>\d+) vs\. (?P<limit>\d+)\))?")
"""Of a compressed message the core tells no sizes."""


class RpcFailure(Protocol):
    """What a failed call tells, in grpc and in grpc.aio alike."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...

    def trailing_metadata(self) -> Any: ...


def error_of(failure: RpcFailure, target: str) -> AclgradError:
    """Returns our exception for a failed call."""
    error = _core_error(failure.code(), failure.details() or "", target)
    error.code = failure.code()
    for key, value in failure.trailing_metadata() or ():
        if key == _STATUS_DETAILS and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                break
            ours = errors.from_status(status)
            if ours is not None:
                return ours
            # A proxy between, for one, may ask for another attempt too.
            error.retry_after_s = errors.retry_delay_s(status)
    return error


def error_of_status(status: status_pb2.Status) -> AclgradError:
    """Returns our exception for the status of one call in a batch."""
    return errors.from_status(status) or AclgradError(status.message)


def closed_error(target: str) -> AclgradError:
    """Returns the error of a call on a client that is closed."""
    remedy = "make a new client"
    return errors.CallCancelledError(f"{target}: the client is closed; {remedy}", remedy=remedy)


def deadline_error(target: str) -> AclgradError:
    """Returns the error of a call whose time limit passed."""
    remedy = "give a larger timeout_s"
    return errors.DeadlinePassedError(f"{target}: no reply within the time limit; {remedy}", remedy=remedy)


def hides_a_status(failure: RpcFailure) -> bool:
    """Whether grpc.aio put a status of its own in place of the one with which the call ended."""
    return failure.details() == _WRITE_FAILED


def _core_error(code: grpc.StatusCode, details: str, target: str) -> AclgradError:
    """Returns our exception for a status that the gRPC core made, which carries no details of ours."""
    too_large = _TOO_LARGE.search(details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and too_large:
        remedy = (
            "raise --max-message-bytes (ACLGRAD_MAX_MESSAGE_BYTES) of the server or max_message_bytes of the client, "
            "whichever is smaller, or send fewer calls or smaller tensors in one message"
        )
        sizes = {name: size for name, size in too_large.groupdict().items() if size is not None}
        message = "a message exceeds, decompressed, the limit of the side that received it"
        if sizes:
            message = f"a message of {sizes['size']} bytes exceeds the limit of {sizes['limit']} bytes"
        return errors.MessageTooLargeError(f"{message}; {remedy}", field="message", remedy=remedy, metadata=sizes)
    if code is grpc.StatusCode.UNAVAILABLE:
        remedy = f"check that a server listens on {target} and that the network lets it through"
        return errors.ConnectionLostError(f"{target}: {details}; {remedy}", remedy=remedy)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return deadline_error(target)
    if code is grpc.StatusCode.CANCELLED and details in _CANCELLED_HERE:
        return closed_error(target)
    if code is grpc.StatusCode.CANCELLED or details == _WRITE_FAILED:
        # A server that stops cancels what it has not begun to answer.
        remedy = "try again, on another server if there is one"
        return errors.ConnectionLostError(f"{target}: the server ended the call; {remedy}", remedy=remedy)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        remedy = "check that the target is an aclgrad server of this version or a newer one"
        return errors.MethodNotServedError(f"{target}: {details}; {remedy}", remedy=remedy)
    return AclgradError(f"{target}: {code.name}: {details}")
