"""What discovery asks servers, and what their answers mean; the input and output is each client's `Network`."""

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
"""How long a server has to say who its siblings are, who it is, and to take the first connection of a new channel."""
FIRST_CHECK_S: Final = 3.0
"""How long the first of several servers has to say who it is: on a busy machine all of them are slow."""
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
"""What a server that does not tell goes on to answer."""
UNREACHABLE: Final = grpc.StatusCode.UNAVAILABLE


class Answer(Enum):
    """What a server says when it is asked for the service that it should have."""

    HERE = "here"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    STRANGER = "stranger"


class Channel:
    """A channel of gRPC and the servers it leads to, its methods and streams by name, and the number of calls on it."""

    __slots__ = ("calls", "endpoints", "grpc", "is_retired", "methods", "streams")

    def __init__(self, endpoints: Endpoints, channel: Any) -> None:
        self.endpoints = endpoints
        self.grpc = channel
        self.methods: dict[str, Any] = {}
        self.streams: dict[str, Any] = {}
        self.calls = 0
        self.is_retired = False
        """Whether it is to be closed when no call uses it any more."""


Reply = bytes | grpc.StatusCode
"""The reply to a call, or the status of one without."""


class Network(ABC):
    """What discovery does on the network; nothing here raises an error of it.

    Each kind of client has its own: that of threads blocks in place of waiting.
    """

    def __init__(self, channel_to: Callable[[Endpoints], Any], metadata: Sequence[Pair]) -> None:
        self._channel_to = channel_to
        self._metadata = metadata

    async def ask(self, front: Channel) -> pb.Host | None:
        """Returns what the server at the front door says of its host, or None if it may say more when asked again."""
        reply = await self._reply(front.grpc, LIST, _LIST_REQUEST, timeout=ASK_S, metadata=self._metadata)
        if not isinstance(reply, bytes):
            return pb.Host() if reply in _FINAL else None
        try:
            return pb.ListOperatorsResponse.FromString(reply).host
        except DecodeError:
            return pb.Host()

    async def is_connected(self, channel: Channel) -> bool:
        """Whether a server of a new channel can be reached within two seconds."""
        request = check_request(channel.endpoints)
        reply = await self._reply(channel.grpc, CHECK, request, timeout=CONNECT_S, wait_for_ready=True)
        return answer_of(reply) in (Answer.HERE, Answer.STRANGER)

    @abstractmethod
    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        """Returns the numbers of names, and what is behind a proxy."""

    @abstractmethod
    async def check(self, endpoints: Endpoints, heard: set[str]) -> dict[str, Answer]:
        """Returns what each of the servers answers, and adds those that are here to `heard` as soon as they say so.

        They are shown no credentials but those of the channel.

        A server is silent if it says nothing within FIRST_CHECK_S, or within `silence_s` if another is here.
        """

    @abstractmethod
    def close(self, channel: Channel) -> None:
        """Closes a channel that no call uses, without waiting for it."""

    @abstractmethod
    async def _reply(self, channel: Any, path: str, request: bytes, **options: Any) -> Reply:
        """Makes a call; on a channel that was closed nobody can be reached."""


def check_request(endpoints: Endpoints) -> bytes:
    """Returns the question for the service of the endpoints, as `grpc.health.v1` has it: one field, a text."""
    name = endpoints.service.encode()
    return b"\x0a" + bytes((len(name),)) + name


def silence_s(first_s: float, limit_s: float) -> float:
    """Returns within how many seconds of a check all others have to answer, after one server did within `first_s`.

    Servers of a busy machine are all slow.
    """
    return min(limit_s, max(CHECK_S, 2 * first_s))


def answer_of(reply: Reply) -> Answer:
    """Returns what a reply means."""
    if isinstance(reply, bytes):
        # One that drains is still the server that is meant.
        return Answer.HERE if reply in (_SERVING, _NOT_SERVING) else Answer.STRANGER
    return {_SILENT: Answer.SILENT, UNREACHABLE: Answer.UNREACHABLE}.get(reply, Answer.STRANGER)
