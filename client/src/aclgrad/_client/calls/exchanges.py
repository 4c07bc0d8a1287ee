"""What goes to a server and comes back, without any input or output: both clients share it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, cast

from google.protobuf.message import Message

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.destination import NEW, Destination, Outputs
from aclgrad._client.calls.message_limit import MessageLimit
from aclgrad._client.calls.outgoing import Inputs, OutgoingCall, SentValues, outgoing_call
from aclgrad._client.server.operators import OperatorDescription, operators_of
from aclgrad._client.server.status import ServerStatus, status_of
from aclgrad.errors import AclgradError, InputValuesRequiredError, ServerFaultError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, decode_response, encode_request, parse_message

_Result = TypeVar("_Result")
_Reply = TypeVar("_Reply", bound=Message)
_Result_co = TypeVar("_Result_co", covariant=True)


class Exchange(Protocol[_Result_co]):
    """One request and its reply: the method, the bytes, about how many go either way, and how to read the reply.

    `amend` returns the exchange to make at once instead if an error says what this one lacked, else None.
    """

    @property
    def method(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def request(self) -> bytes: ...

    def read(self, reply: bytes) -> _Result_co: ...

    def amend(self, error: AclgradError) -> "Exchange[_Result_co] | None": ...


@dataclass(frozen=True, slots=True)
class Query(Generic[_Result]):
    """An exchange that is never amended."""

    method: str
    request: bytes
    read: Callable[[bytes], _Result]

    @property
    def size_bytes(self) -> int:
        return len(self.request)

    def amend(self, error: AclgradError) -> None:
        return None


CHUNKED: Final = "ExecuteOperatorChunked"


class ChunkedCall(NamedTuple):
    """A call that goes in chunks, their size, and where its gradient goes."""

    call: OperatorCall
    chunk_bytes: int
    destination: Destination


class Execution:
    """One operator is executed; the call becomes bytes only when it is sent, and in one of several ways."""

    method = "ExecuteOperator"

    def __init__(
        self,
        operator: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None,
        sent: SentValues,
        limit: MessageLimit,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """Raises InvalidFieldError as `outgoing_call` does, and for an `out` that does not fit."""
        self._arguments = (operator, inputs, attributes)
        self._out = out
        self._wanted = outputs
        self._sent = sent
        self._limit = limit
        self._chunk_bytes: int | None = None
        """The size of chunks that a refusal led to."""
        self.outgoing = outgoing_call(operator, inputs, attributes, sent, outputs)
        self.destination = destination_of(out, self.outgoing)

    @cached_property
    def size_bytes(self) -> int:
        return self.outgoing.size_bytes

    def in_chunks(self, size_bytes: int) -> ChunkedCall | None:
        """Returns the call in chunks, or None if so many bytes of tensors go in a message."""
        if self._chunk_bytes is None and size_bytes <= self._limit.tensor_bytes:
            return None
        return ChunkedCall(self.outgoing.call, self._limit.chunk_bytes, self.destination)

    def take(self, gradient: Array) -> Array:
        """Returns the gradient that came in chunks."""
        return gradient

    @property
    def request(self) -> bytes:
        """The call as one message; raises InvalidFieldError for an attribute that has no form on the wire."""
        return encode_request(self.outgoing.call)

    def read(self, reply: bytes) -> Array:
        """Returns the gradient in a reply; raises ServerFaultError for other bytes."""
        try:
            outputs = decode_response(reply)
        except ValueError as error:
            raise unreadable_reply(error) from error
        return gradient_of(outputs, self.destination)

    def amend(self, error: AclgradError) -> "Execution | None":
        """Returns the call with all values if the server asks for them, and in chunks if a message was too large."""
        if isinstance(error, InputValuesRequiredError):
            self._sent.require(self._arguments[0])
            if not self.outgoing.withheld:
                return None
            return Execution(*self._arguments, self._sent, self._limit, self._out, self._wanted)
        if not self._limit.learn(error):
            return None
        before, self._chunk_bytes = self._chunk_bytes, self._limit.chunk_bytes
        return self if before is None or self._chunk_bytes < before else None


def operators_query() -> Query[list[OperatorDescription]]:
    """Returns the query for the operators that the server serves."""
    request = pb.ListOperatorsRequest().SerializeToString()
    return Query("ListOperators", request, _reader(pb.ListOperatorsResponse, operators_of))


def status_query() -> Query[ServerStatus]:
    """Returns the query for the state of the server."""
    return _status_query(status_of)


def status_message_query() -> Query[pb.GetServerStatusResponse]:
    """Returns the same query for those who merge the answers of several workers."""
    return _status_query(lambda message: message)


def _status_query(convert: Callable[[pb.GetServerStatusResponse], _Result]) -> Query[_Result]:
    request = pb.GetServerStatusRequest().SerializeToString()
    return Query("GetServerStatus", request, _reader(pb.GetServerStatusResponse, convert))


def only_reply(replies: Iterable[bytes]) -> bytes:
    """Returns the reply to a call of one message; raises ServerFaultError unless there is exactly one."""
    try:
        (reply,) = replies
    except ValueError as error:
        raise ServerFaultError("the server sent no reply, or more than one") from error
    return reply


def destination_of(out: Outputs | None, outgoing: OutgoingCall) -> Destination:
    """Returns where the gradient of the call goes; raises InvalidFieldError for an `out` that does not fit."""
    spec = OPERATORS.get(outgoing.call.operator)
    if out is None and (spec is None or len(spec.outputs) == 1):
        return NEW
    names = () if spec is None else [each.name for each in spec.outputs]
    destination = Destination(out, names, outgoing.call.outputs, outgoing.call.operator)
    if outgoing.outputs:
        destination.check(outgoing.outputs)
    destination.check_apart(outgoing.call.inputs)
    return destination


def gradient_of(outputs: tuple[TensorView, ...], destination: Destination = NEW) -> Array:
    """Returns the gradients; raises ServerFaultError if one is missing, InvalidFieldError if one does not fit `out`."""
    try:
        buffers = destination.buffers(outputs)
    except ValueError as error:
        raise unreadable_reply(error) from error
    destination.check(outputs)
    try:
        gradients = [buffer.read(output) for buffer, output in zip(buffers, outputs, strict=True)]
    except ValueError as error:
        raise unreadable_reply(error) from error
    return cast(Array, destination.result(outputs, gradients))


def _reader(kind: type[_Reply], convert: Callable[[_Reply], _Result]) -> Callable[[bytes], _Result]:
    def read(reply: bytes) -> _Result:
        try:
            return convert(parse_message(kind, reply))
        except ValueError as error:
            raise unreadable_reply(error) from error

    return read
