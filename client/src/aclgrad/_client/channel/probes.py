"""Discovery's questions to servers and the meaning of answers; each client's `Network` does input and output."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from aclgrad._client.channel.proxies import ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found
from aclgrad._client.channel.servers import Endpoints
from aclgrad._client.settings.metadata import Pair
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import path_of

ASK_S: Final = 5.0
CHECK_S: Final = 1.0
CONNECT_S: Final = 2.0
"""Time limits of a server to name its siblings, to identify itself, and to take a new channel's first connection."""
FIRST_CHECK_S: Final = 3.0
"""Time limit of the first of several servers to identify itself: on a busy machine all are slow."""
LIST: Final = path_of("ListOperators")
_LIST_REQUEST: Final = pb.ListOperatorsRequest().SerializeToString()
CHECK: Final = "/grpc.health.v1.Health/Check"
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
_SILENT: Final = grpc.StatusCode.DEADLINE_EXCEEDED
_FINAL: Final = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INTERNAL,
)
"""The answer of a server that gives none."""
UNREACHABLE: Final = grpc.StatusCode.UNAVAILABLE


class Answer(Enum):
    """A server's answer to the question for its service."""

    HERE = "here"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    WRONG_SERVER = "wrong server"


class Channel:
    """A gRPC channel, the servers behind it, its methods and streams by name, and the number of calls on it."""

    __slots__ = ("calls", "endpoints", "grpc", "is_retired", "methods", "streams")

    def __init__(self, endpoints: Endpoints, channel: Any) -> None:
        self.endpoints = endpoints
        self.grpc = channel
        self.methods: dict[str, Any] = {}
        self.streams: dict[str, Any] = {}
        self.calls = 0
        self.is_retired = False
        """Whether it is closed when its last call has ended."""


Reply = bytes | grpc.StatusCode
"""The reply to a call, or the status of one without."""


class Network(ABC):
    """Discovery's operations on the network, none of which raises network errors.

    Each kind of client has its own; the one for threads blocks instead of waiting.
    """

    def __init__(self, channel_to: Callable[[Endpoints], Any], metadata: Sequence[Pair]) -> None:
        self._channel_to = channel_to
        self._metadata = metadata

    async def ask(self, front: Channel) -> pb.Host | None:
        """Returns the front door's description of its host, or None if it should be asked again."""
        reply = await self._reply(front.grpc, LIST, _LIST_REQUEST, timeout=ASK_S, metadata=self._metadata)
        if not isinstance(reply, bytes):
            return pb.Host() if reply in _FINAL else None
        try:
            return pb.ListOperatorsResponse.FromString(reply).host
        except DecodeError:
            return pb.Host()

    async def is_connected(self, channel: Channel) -> bool:
        """Whether a new channel reaches a server within two seconds."""
        request = check_request(channel.endpoints)
        reply = await self._reply(channel.grpc, CHECK, request, timeout=CONNECT_S, wait_for_ready=True)
        return answer_of(reply) in (Answer.HERE, Answer.WRONG_SERVER)

    @abstractmethod
    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        """Returns the addresses of names, and which are behind a proxy."""

    @abstractmethod
    async def check(self, endpoints: Endpoints, heard: set[str]) -> dict[str, Answer]:
        """Returns the answer of each server, and adds those that are well to `heard` at once.

        They see no credentials but the channel's. A server is silent if it does not answer within FIRST_CHECK_S, or
        within `silence_s` if another has answered.
        """

    @abstractmethod
    def close(self, channel: Channel) -> None:
        """Closes an unused channel, without waiting for it."""

    @abstractmethod
    async def _reply(self, channel: Any, path: str, request: bytes, **options: Any) -> Reply:
        """Makes a call; no server can be reached on a closed channel."""


def check_request(endpoints: Endpoints) -> bytes:
    """Returns the `grpc.health.v1` request for the endpoints' service: one text field."""
    name = endpoints.service.encode()
    return b"\x0a" + bytes((len(name),)) + name


def silence_s(first_s: float, limit_s: float) -> float:
    """Returns the time limit of the other servers in a check after one has answered within `first_s`.

    On a busy machine all servers are slow.
    """
    return min(limit_s, max(CHECK_S, 2 * first_s))


def answer_of(reply: Reply) -> Answer:
    """Returns the meaning of a reply."""
    if isinstance(reply, bytes):
        # A draining server is still the right one.
        return Answer.HERE if reply in (_SERVING, _NOT_SERVING) else Answer.WRONG_SERVER
    return {_SILENT: Answer.SILENT, UNREACHABLE: Answer.UNREACHABLE}.get(reply, Answer.WRONG_SERVER)
