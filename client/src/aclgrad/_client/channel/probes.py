"""What discovery asks servers, and what their answers mean; the input and output is each client's `Network`."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import DecodeError

from aclgrad._client.channel.proxies import ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found
from aclgrad._client.channel.servers import Endpoints, one_by_one
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import path_of

ASK_S: Final = 5.0
CHECK_S: Final = 1.0
CONNECT_S: Final = 2.0
"""How long a server has to say who its siblings are, who it is, and to take the first connection of a new channel."""
FIRST_CHECK_S: Final = 3.0
"""How long the first of several servers has to say who it is: on a busy machine all of them are slow."""
MOST_NAMED: Final = 64
"""Servers of a `dns:` target that are checked; of more, a second attempt hardly meets the one that says nothing."""
LIST: Final = path_of("ListOperators")
LIST_REQUEST: Final = pb.ListOperatorsRequest().SerializeToString()
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
_UNREACHABLE: Final = grpc.StatusCode.UNAVAILABLE


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


Hear = Callable[[Endpoints], None]
"""Gets a server as soon as it has answered, while others may still be silent."""


class Network(Protocol):
    """What discovery needs of the network; nothing here raises an error of it."""

    async def ask(self, front: Channel) -> pb.Host | None:
        """Returns what the server at the front door says of its host, or None if it does not answer."""

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        """Returns the numbers of names, and what is behind a proxy."""

    async def check(self, servers: Sequence[Endpoints], hear: Hear) -> list[Answer]:
        """Returns what each server answers, and has each that is here heard at once.

        It is shown no credentials but those of the channel.

        A server is silent if it says nothing within FIRST_CHECK_S, or within `silence_s` if another is here.
        """

    async def is_connected(self, channel: Channel) -> bool:
        """Whether a server of a new channel can be reached within two seconds."""

    def close(self, channel: Channel) -> None:
        """Closes a channel that no call uses, without waiting for it."""


async def answers_of_each(
    network: Network, endpoints: Endpoints, heard: set[str], most: int | None = None
) -> dict[str, Answer]:
    """Returns what each of the servers answers, and adds those that are here to `heard` as soon as they say so.

    Takes all for present, and asks none, if there are more than `most`.
    """
    if most is not None and len(endpoints.addresses) > most:
        return dict.fromkeys(endpoints.addresses, Answer.HERE)
    servers = one_by_one(endpoints)
    names = {server.target: address for server, address in zip(servers, endpoints.addresses, strict=True)}
    answers = await network.check(servers, lambda server: heard.add(names[server.target]))
    return dict(zip(endpoints.addresses, answers, strict=True))


def reached_by_name(names: Sequence[str], found: Found, answers: Mapping[str, Answer]) -> dict[str, str | None]:
    """Returns for each name the first of its numbers that answers.

    One is enough, and which of them is another host or family shows only here.
    """
    return {
        name: next((each for each in found.numbers.get(name, ()) if answers[each] is Answer.HERE), None)
        for name in names
    }


def check_request(endpoints: Endpoints) -> bytes:
    """Returns the question for the service of the endpoints, as `grpc.health.v1` has it: one field, a text."""
    name = endpoints.service.encode()
    return b"\x0a" + bytes((len(name),)) + name


def silence_s(first_s: float, limit_s: float) -> float:
    """Returns within how many seconds of a check all others have to answer, after one server did within `first_s`.

    Servers of a busy machine are all slow.
    """
    return min(limit_s, max(CHECK_S, 2 * first_s))


def answer_of(reply: bytes | None, code: grpc.StatusCode | None = None) -> Answer:
    """Returns what a reply means, or the status of a call without one."""
    if reply is not None:
        # One that drains is still the server that is meant.
        return Answer.HERE if reply in (_SERVING, _NOT_SERVING) else Answer.STRANGER
    return {_SILENT: Answer.SILENT, _UNREACHABLE: Answer.UNREACHABLE}.get(code or _SILENT, Answer.STRANGER)


def host_of(reply: bytes | None, code: grpc.StatusCode | None = None) -> pb.Host | None:
    """Returns what the reply to LIST says of the host, or a status; None if it may say more when it is asked again."""
    if reply is None:
        return pb.Host() if code in _FINAL else None
    try:
        return pb.ListOperatorsResponse.FromString(reply).host
    except DecodeError:
        return pb.Host()
