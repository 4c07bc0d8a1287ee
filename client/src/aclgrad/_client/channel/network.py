"""A channel of a client, and what its looks at servers need of the network: for threads, or for tasks."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from aclgrad._client.channel.resolver import Found
from aclgrad._client.channel.servers import Route
from aclgrad.v1 import operator_service_pb2 as pb


class Answer(Enum):
    """What a server says when it is asked for the service that it should have."""

    HERE = "here"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    STRANGER = "stranger"


class Line:
    """A channel, its methods by name, and the number of calls on it."""

    __slots__ = ("calls", "channel", "is_retired", "methods", "route")

    def __init__(self, route: Route, channel: Any) -> None:
        self.route = route
        self.channel = channel
        self.methods: dict[str, Any] = {}
        self.calls = 0
        self.is_retired = False
        """Whether it is to be closed when no call uses it any more."""


class Network(Protocol):
    """What the looks of a client need of the network; nothing here raises an error of it."""

    async def ask(self, front: Line) -> pb.Host | None:
        """Returns what the server at the front door says of its host, or None if it does not answer."""

    async def look_up(self, addresses: Sequence[str]) -> Found:
        """Returns the numbers of names."""

    async def check(self, routes: Sequence[Route]) -> list[Answer]:
        """Returns what each server answers, within a second; it is shown no credentials but those of the channel."""

    async def open(self, route: Route) -> Line:
        """Opens a channel."""

    async def is_connected(self, line: Line) -> bool:
        """Whether a server of a new channel can be reached within two seconds."""

    def close(self, line: Line) -> None:
        """Closes a channel that no call uses, without waiting for it."""
