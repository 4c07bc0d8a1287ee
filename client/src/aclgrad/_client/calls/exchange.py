"""A request and its reply, without input or output: both clients share it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from google.protobuf.message import Message

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad.errors import AclgradError
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import parse_message

if TYPE_CHECKING:
    from aclgrad.descriptions.operators import OperatorDescription
    from aclgrad.descriptions.status import ServerStatus

_Result = TypeVar("_Result")
_Reply = TypeVar("_Reply", bound=Message)


class Exchange(ABC, Generic[_Result]):
    """One request and its reply: the method, the message, about its bytes either way, and how to read the reply."""

    __slots__ = ("size_bytes",)
    method: str
    size_bytes: int
    """The larger of the request's bytes and the bytes that `read` copies."""

    @property
    @abstractmethod
    def request(self) -> bytes:
        """The message to send."""

    @abstractmethod
    def read(self, reply: bytes) -> _Result:
        """Returns the content of the reply; raises ServerFaultError if it is not valid."""

    def in_chunks(self) -> ChunkedProgram[_Result] | None:
        """Returns the program to send in chunks, or None for a message."""
        return None

    def amend(self, error: AclgradError) -> "Exchange[_Result] | None":
        """Returns the exchange to make at once instead, if the error says what this one lacked; else None."""
        return None


class Query(Exchange[_Result]):
    """An exchange whose request never changes."""

    __slots__ = ("_read", "_request", "method")

    def __init__(self, method: str, request: bytes, read: Callable[[bytes], _Result]) -> None:
        self.method = method
        self.size_bytes = len(request)
        self._request = request
        self._read = read

    @property
    def request(self) -> bytes:
        return self._request

    def read(self, reply: bytes) -> _Result:
        return self._read(reply)


def operators_query() -> Query[list["OperatorDescription"]]:
    """Returns the query for the operators that the server serves."""
    # Descriptions of servers are loaded on demand: most programs only call operators.
    from aclgrad.descriptions.operators import operators_of

    request = pb.ListOperatorsRequest().SerializeToString()
    return Query("ListOperators", request, _reader(pb.ListOperatorsResponse, operators_of))


def status_query() -> Query["ServerStatus"]:
    """Returns the query for the state of the server."""
    from aclgrad.descriptions.status import status_of

    return _status_query(status_of)


def status_message_query() -> Query[pb.GetServerStatusResponse]:
    """Returns the same query, for callers that merge the answers of several workers."""
    return _status_query(lambda message: message)


def _status_query(convert: Callable[[pb.GetServerStatusResponse], _Result]) -> Query[_Result]:
    request = pb.GetServerStatusRequest().SerializeToString()
    return Query("GetServerStatus", request, _reader(pb.GetServerStatusResponse, convert))


def _reader(kind: type[_Reply], convert: Callable[[_Reply], _Result]) -> Callable[[bytes], _Result]:
    def read(reply: bytes) -> _Result:
        try:
            return convert(parse_message(kind, reply))
        except ValueError as error:
            raise unreadable_reply(error) from error

    return read
