"""What a call sends and how its reply or its error is read, without any input or output: both clients share it."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2
from numpy.typing import ArrayLike

from aclgrad import errors
from aclgrad._message_limit import MessageLimit
from aclgrad._settings import checked_seconds
from aclgrad.errors import AclgradError, ConnectionLostError, InputValuesRequiredError, InvalidFieldError
from aclgrad.operators.attributes import AttributeLike, plain_attribute
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.tensors import DType, TensorType, TensorView, array_of_view, type_of_array, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import (
    AttributeValue,
    OperatorCall,
    checked_name,
    decode_response,
    encode_request,
    parse_message,
)

Array = np.ndarray[Any, Any]
Input = ArrayLike | tuple[int, ...]
"""An array, or a tuple of sizes: a tensor of that shape whose values the operator does not read."""

MAX_TIMEOUT_S = 1e8
LARGE_BYTES = 2**20
"""More bytes are not copied on an event loop, and may not fit into the buffers of a connection."""
_ATTRIBUTES = {spec.name: {each.name: each for each in spec.attributes} for spec in OPERATORS.values()}
_DEFAULTS: dict[str, dict[str, AttributeValue]] = {
    spec.name: {each.name: each.default for each in spec.attributes if each.default is not None}
    for spec in OPERATORS.values()
}
SERVICE = "/aclgrad.v1.OperatorService/"
_Result = TypeVar("_Result")
_Reply = TypeVar("_Reply", bound=Message)
_Result_co = TypeVar("_Result_co", covariant=True)


class Call(Protocol[_Result_co]):
    """One call: its method, its bytes, about how many go either way, and how to read the bytes that come back.

    `amend` gives the call to make at once in its place where an error tells what it lacked, else None.
    """

    @property
    def method(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

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

    @property
    def size_bytes(self) -> int:
        return len(self.request)

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
    """The call of an operator as it is to be sent, and the caller's arrays of which only the shape is."""

    call: OperatorCall
    withheld: Mapping[str, Array]

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
        types = {tensor.name: tensor.type for tensor in self.call.inputs}
        try:
            type = spec.output.infer(Arguments(types, {**_DEFAULTS[spec.name], **self.call.attributes}))
            return TensorType(type.dtype, tuple(map(operator.index, type.shape)))
        except (LookupError, TypeError, ValueError):
            return None


def copies_much(inputs: Mapping[str, Input]) -> bool:
    """Whether planning the call would copy more than an event loop should: arrays that are not as the wire has them."""
    if not isinstance(inputs, Mapping):
        return False
    return any(
        getattr(value, "nbytes", 0) > LARGE_BYTES
        and not (isinstance(value, np.ndarray) and value.flags.c_contiguous and value.dtype.isnative)
        for value in inputs.values()
    )


def planned_call(
    operator: str,
    inputs: Mapping[str, Input],
    attributes: Mapping[str, AttributeLike] | None,
    sent: SentValues,
) -> PlannedCall:
    """Returns the call of one operator.

    An input that came as a shape has the dtype of the first input that is an array. Raises InvalidFieldError if an
    array or an attribute has no form on the wire.
    """
    if type(operator) is not str:
        checked_name("operator", operator)
    _check_mapping("inputs", inputs, "input names to arrays or shapes")
    arrays = {name: _array(name, value) for name, value in inputs.items() if not _is_shape(value)}
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
    return PlannedCall(OperatorCall(operator, views, _plain_attributes(operator, attributes)), withheld)


def _plain_attributes(operator: str, attributes: Mapping[str, AttributeLike] | None) -> dict[str, AttributeValue]:
    if attributes is None:
        return {}
    _check_mapping("attributes", attributes, "attribute names to values")
    specs = _ATTRIBUTES.get(operator, {})
    return {name: plain_attribute(name, value, specs.get(name)) for name, value in attributes.items()}


class ExecuteCall:
    """The call of one operator; it becomes bytes only when it is sent, and in one of several ways."""

    method = "ExecuteOperator"

    def __init__(
        self,
        operator: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeLike] | None,
        sent: SentValues,
        limit: MessageLimit,
    ) -> None:
        """Raises InvalidFieldError as `planned_call` does."""
        self._arguments = (operator, inputs, attributes)
        self._sent = sent
        self._limit = limit
        self._chunk_bytes: int | None = None
        """The size of chunks that a refusal led to."""
        self.planned = planned_call(operator, inputs, attributes, sent)

    @cached_property
    def size_bytes(self) -> int:
        return self.planned.size_bytes

    def in_chunks(self, size_bytes: int) -> tuple[OperatorCall, int] | None:
        """Returns the call and the size of its chunks, or None if so many bytes of tensors go in a message."""
        if self._chunk_bytes is None and size_bytes <= self._limit.tensor_bytes:
            return None
        return self.planned.call, self._limit.chunk_bytes

    def take(self, gradient: Array) -> Array:
        """Returns the gradient that came in chunks."""
        return gradient

    @property
    def request(self) -> bytes:
        """The call as one message; raises InvalidFieldError for an attribute that has no form on the wire."""
        return encode_request(self.planned.call)

    def read(self, reply: bytes) -> Array:
        """Returns the gradient in a reply; raises ServerFaultError for bytes that are none."""
        try:
            return gradient_of(decode_response(reply))
        except ValueError as error:
            raise unreadable_reply(error) from error

    def amend(self, error: AclgradError) -> "ExecuteCall | None":
        """Returns the call with all values if the server asks for them, and in chunks if a message was too large."""
        if isinstance(error, InputValuesRequiredError):
            self._sent.require(self._arguments[0])
            return ExecuteCall(*self._arguments, self._sent, self._limit) if self.planned.withheld else None
        if not self._limit.learn(error):
            return None
        before, self._chunk_bytes = self._chunk_bytes, self._limit.chunk_bytes
        return self if before is None or self._chunk_bytes < before else None


def only_reply(replies: Iterable[bytes]) -> bytes:
    """Returns the reply to a call of one message; raises ServerFaultError unless there is exactly one."""
    try:
        (reply,) = replies
    except ValueError as error:
        raise errors.ServerFaultError("the server sent no reply, or more than one") from error
    return reply


def gradient_of(outputs: tuple[TensorView, ...]) -> Array:
    """Returns the only output; raises ServerFaultError where it is no such thing."""
    try:
        (output,) = outputs
        return array_of_view(output)
    except ValueError as error:
        raise unreadable_reply(error) from error


def unreadable_reply(error: ValueError) -> errors.ServerFaultError:
    """Returns the error of a reply that is not what its method promises."""
    return errors.ServerFaultError(f"the reply of the server cannot be read: {error}")


def _parsed(kind: type[_Reply], reply: bytes) -> _Reply:
    try:
        return parse_message(kind, reply)
    except ValueError as error:
        raise unreadable_reply(error) from error


def time_limit(timeout_s: float | None) -> float | None:
    """Returns the limit as grpc takes it: none beyond what its clock can count.

    Raises InvalidSettingError unless it is a number of seconds or None.
    """
    if timeout_s is None:
        return None
    limit_s = checked_seconds("timeout_s", timeout_s)
    return None if limit_s > MAX_TIMEOUT_S else limit_s


def list_operators_call() -> PlainCall[list[pb.OperatorDescription]]:
    """Returns the call for the operators that the server serves."""
    return PlainCall(
        "ListOperators",
        pb.ListOperatorsRequest().SerializeToString(),
        lambda reply: list(_parsed(pb.ListOperatorsResponse, reply).operators),
    )


def server_status_call() -> PlainCall[pb.GetServerStatusResponse]:
    """Returns the call for the state of the server."""
    return PlainCall(
        "GetServerStatus",
        pb.GetServerStatusRequest().SerializeToString(),
        lambda reply: _parsed(pb.GetServerStatusResponse, reply),
    )


def _check_mapping(field: str, value: object, of: str) -> None:
    # First the usual: an abstract class takes longer to ask.
    if type(value) is not dict and not isinstance(value, Mapping):
        problem, remedy = f"is a {type(value).__name__}", f"give a mapping from {of}"
        raise InvalidFieldError.at(field, problem, remedy)


def _array(name: str, value: Input) -> Array:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        problem = f"has {np.count_nonzero(value.mask)} masked values, and a mask cannot be sent"
        raise InvalidFieldError.at(f"inputs[{name}]", problem, "give array.filled(value)")
    try:
        return np.asarray(value)
    except Exception as error:  # whatever the object's own conversion raises
        problem = f"is no array: {error}"
        raise InvalidFieldError.at(f"inputs[{name}]", problem, "give an array or a shape") from error


def _is_shape(value: Input) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value)


def _shape_only_dtype(name: str, dtypes: Sequence[DType]) -> DType:
    if not dtypes:
        problem = "is a shape, and no other input is an array that tells the dtype"
        raise InvalidFieldError.at(f"inputs[{name}]", problem, "give at least one input as an array")
    return dtypes[0]


# ------------------------------------------------------------------------------------------------------- errors

_STATUS_DETAILS = "grpc-status-details-bin"
_WRITE_FAILED = "Internal error from Core"
"""What grpc.aio says where the server ended a call while its messages were being written."""
_UNREACHED = re.compile(r"failed to connect|all backends failing|errors resolving|resolution failed", re.IGNORECASE)
"""What the core says when no connection could be made; in any other words the call counts as sent."""
_TOO_LARGE = re.compile(r"message larger than max( \((?P<size>\d+) vs\. (?P<limit>\d+)\))?")
"""Of a compressed message the core tells no sizes."""


class RpcFailure(Protocol):
    """What a failed call tells, in grpc and in grpc.aio alike."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...

    def trailing_metadata(self) -> Any: ...


def error_of(failure: RpcFailure, target: str, *, is_closed: bool) -> AclgradError:
    """Returns our exception for a failed call of a client that is open or closed."""
    error = _core_error(failure.code(), failure.details() or "", target)
    if is_closed and isinstance(error, ConnectionLostError):
        return closed_error(target)
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
    return errors.CallCancelledError(f"{target}: the client is closed", remedy=remedy)


def wrong_loop_error(target: str) -> AclgradError:
    """Returns the error of a call on a client that another event loop uses."""
    remedy = "make one AsyncClient for each event loop, within the function that asyncio.run is given"
    return errors.WrongEventLoopError(f"{target}: the client belongs to another event loop", remedy=remedy)


def deadline_error(target: str) -> AclgradError:
    """Returns the error of a call whose time limit passed."""
    remedy = "give a larger timeout_s"
    return errors.DeadlinePassedError(f"{target}: no reply within the time limit", remedy=remedy)


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
        return errors.MessageTooLargeError(message, field="message", remedy=remedy, metadata=sizes)
    if code is grpc.StatusCode.UNAVAILABLE:
        remedy = f"check that a server listens on {target} and that the network lets it through"
        kind = errors.ServerUnreachableError if _UNREACHED.search(details) else errors.ConnectionLostError
        return kind(f"{target}: {details}", remedy=remedy)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return deadline_error(target)
    if code is grpc.StatusCode.CANCELLED or details == _WRITE_FAILED:
        # A server that stops cancels what it has not begun to answer.
        remedy = "if the connection is slow, send less in one call or raise --client-timeout-s of the server"
        what = "the server ended the call and gave no reason: it stops, or a message took too long to arrive"
        return errors.CallCutError(f"{target}: {what}", remedy=remedy)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        remedy = "check that the target is an aclgrad server of this version or a newer one"
        return errors.MethodNotServedError(f"{target}: {details}", remedy=remedy)
    return AclgradError(f"{target}: {code.name}: {details}")
