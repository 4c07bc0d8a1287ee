"""Servers, names and connections that exist only in a test, on a clock that moves while everybody waits."""

import asyncio
import math
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final, NoReturn, Self

import grpc

import aclgrad
from aclgrad._client.aio.discovery import DiscoveryTask, TaskNetwork
from aclgrad._client.aio.transport import TaskTransport
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad._client.attempts.retry_budget import RetryBudget
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import CHECK, LIST, Answer, Channel
from aclgrad._client.channel.proxies import ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found, SourceError, host_of
from aclgrad._client.channel.servers import Balancing, Endpoints
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import REQUEST_ID, SERVICE_NAME

from .scripted_service import REPLY

FRONT: Final = "192.0.2.1:1000"
"""The port that the workers of the modelled host share: a connection reaches one of them."""
REPLY_S: Final = 0.01
KEEPALIVE_S: Final = 50.0
"""After which gRPC finds a connection half open, and ends it."""
_OWN_CONNECTIONS: Final = ("grpc.use_local_subchannel_pool", 1)
_SERVING: Final = b"\x08\x01"


class VirtualTime(selectors.SelectSelector):
    """The clock of an event loop, which moves instead of waiting."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.now += max(0.0, timeout)
        return super().select(0)


def virtual_loop() -> asyncio.AbstractEventLoop:
    clock = VirtualTime()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now  # type: ignore[method-assign]
    return loop


class State(Enum):
    """What a server does with calls. A foreign one has health checks for services of its own, a stranger has none."""

    WELL = "well"
    HUNG = "hung"
    DOWN = "down"
    FOREIGN = "foreign"
    STRANGER = "stranger"


@dataclass(frozen=True)
class Visit:
    """An attempt of a call that reached a server, or got lost on a connection to it that is half open.

    `place` is that connection, or the server and the time since which it is in its state.
    """

    at: float
    server: "Server"
    state: State
    since: float
    place: tuple[object, ...]
    request_id: str
    is_by_front: bool


@dataclass(eq=False)
class Server:
    """One process after the other at an address. `service` is its name in health checks."""

    address: str
    service: str
    since: float
    state: State = State.WELL
    process: int = 0
    known_at: float = math.inf
    """When it first said in its present state that it is here, or began to be named."""
    half_open: dict["ModelledChannel", float] = field(default_factory=dict)
    """Channels whose connection to it has lost the other end without a word, and when."""

    def takes(self, service: str) -> bool:
        """Whether gRPC, which checks its health, sends calls there. It does not see that a server hangs."""
        if self.state in (State.WELL, State.HUNG):
            return service in (self.service, SERVICE_NAME)
        return self.state is State.STRANGER

    def reply(self, path: str, request: bytes, host: pb.Host) -> bytes:
        if self.state is State.STRANGER:
            fail(grpc.StatusCode.UNIMPLEMENTED)
        if path == CHECK:
            if self.state is State.FOREIGN or request[2:].decode() not in (self.service, SERVICE_NAME):
                fail(grpc.StatusCode.NOT_FOUND)
            return _SERVING
        if self.state is State.FOREIGN:
            fail(grpc.StatusCode.UNIMPLEMENTED)
        return pb.ListOperatorsResponse(host=host).SerializeToString() if path == LIST else REPLY


class World:
    """All that there is, whatever a client thinks of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.clock = loop.time
        self.servers: dict[str, Server] = {}
        self.names: dict[str, list[str]] = {}
        self.do_names_answer = True
        self.host_id = ""
        self.is_behind_nat = False
        """Whether only the shared port of the host can be reached."""
        self.visits: list[Visit] = []
        self.channels: set[ModelledChannel] = set()
        self.pins: dict[Any, Server] = {}
        """The server of each connection to the shared port, which channels share unless they ask for their own."""
        self.look_count = 0
        self.lookups: list[float] = []
        self.is_looking = False
        self._changed = asyncio.Event()

    def add(self, address: str, service: str = SERVICE_NAME) -> Server:
        self.servers[address] = Server(address, service, self.clock())
        self.change()
        return self.servers[address]

    def turn(self, server: Server, state: State) -> None:
        if {server.state, state} - {State.WELL, State.HUNG}:
            server.process += 1
            server.half_open.clear()
        if state is not server.state:
            server.state, server.since, server.known_at = state, self.clock(), math.inf
        self.change()

    def lose_connections(self, server: Server) -> None:
        """The other end of each is forgotten, as by a firewall."""
        lost = {each: self.clock() for each in self.channels if each not in server.half_open}
        server.half_open |= lost
        self._loop.call_later(KEEPALIVE_S, self._end, server, lost)

    def _end(self, server: Server, lost: dict["ModelledChannel", float]) -> None:
        server.half_open = dict(server.half_open.items() - lost.items())
        self.change()

    def visit(self, server: Server, channel: "ModelledChannel", request_id: str, is_by_front: bool) -> None:
        lost_at = server.half_open.get(channel)
        place = (server, server.since) if lost_at is None else (server, channel, lost_at)
        state = server.state if lost_at is None else State.HUNG
        self.visits.append(Visit(self.clock(), server, state, server.since, place, request_id, is_by_front))

    def change(self) -> None:
        """Wakes whoever waits for anything to be otherwise."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        await self._changed.wait()

    @property
    def workers(self) -> list[Server]:
        return [each for each in self.servers.values() if each.service == self.host_id]

    @property
    def host(self) -> pb.Host:
        """What a worker of the host says of it."""
        ports = [int(each.address.rpartition(":")[2]) for each in self.workers]
        return pb.Host(id=self.host_id, listeners=[pb.Listener(port=1000, worker_ports=ports)])

    @contextmanager
    def looking(self) -> Iterator[None]:
        """One look at a time, or the servers are asked twice."""
        assert not self.is_looking, "two looks at once"
        self.is_looking = True
        try:
            yield
        finally:
            self.is_looking = False

    def numbers(self, address: str) -> list[str]:
        host = host_of(address)
        return [f"{number}:{address.rpartition(':')[2]}" for number in self.names.get(host, [host])]


class ModelledChannel:
    """A channel of grpc.aio: it goes to the servers in turn, also to those that hang."""

    def __init__(self, world: World, endpoints: Endpoints) -> None:
        self._world = world
        self._endpoints = endpoints
        self._turn = 0
        self._numbers: list[str] = []
        self.is_closed = False
        world.channels.add(self)

    def unary_unary(self, path: str) -> Callable[..., Any]:
        return partial(self._call, path)

    async def close(self) -> None:
        self.is_closed = True
        self._world.channels.discard(self)
        self._world.change()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(
        self, path: str, request: bytes, timeout: float | None, metadata: Any = (), wait_for_ready: bool = False
    ) -> bytes:
        if self.is_closed:
            raise grpc.aio.UsageError
        request_id = dict(metadata).get(REQUEST_ID, "")
        try:
            async with asyncio.timeout(timeout):
                return await self._reply(path, request, request_id, wait_for_ready)
        except TimeoutError:
            fail(grpc.StatusCode.DEADLINE_EXCEEDED)

    async def _reply(self, path: str, request: bytes, request_id: str, wait_for_ready: bool) -> bytes:
        while (server := self._server()) is None:
            if not wait_for_ready or self.is_closed:
                fail(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses")
            await self._world.changed()
        process, is_half_open = server.process, self in server.half_open
        if request_id:
            self._world.visit(server, self, request_id, self._endpoints.target == FRONT)
        await asyncio.sleep(REPLY_S)
        while True:
            if self.is_closed:
                # As grpc.aio does.
                raise asyncio.CancelledError
            is_cut = is_half_open and self not in server.half_open
            if server.process != process or is_cut:
                fail(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            is_half_open = self in server.half_open
            if server.state is not State.HUNG and not is_half_open:
                if path == CHECK:
                    server.known_at = min(server.known_at, self._world.clock())
                return server.reply(path, request, self._world.host)
            await self._world.changed()

    def _server(self) -> Server | None:
        """Returns the server to which gRPC sends the next call."""
        world, target = self._world, self._endpoints.target
        if target == FRONT:
            return self._behind_front()
        if target.startswith("dns:"):
            found = [world.servers[each] for each in self._numbers if each in world.servers]
            if not found or any(each.state is State.DOWN for each in found):
                # gRPC follows the name when a connection ends.
                self._numbers = world.numbers(target.rpartition("/")[2]) or self._numbers
        else:
            self._numbers = target.partition(":")[2].split(",")
        servers = [world.servers[each] for each in self._numbers if each in world.servers]
        if world.is_behind_nat:
            return None
        if self._endpoints.balancing is Balancing.ONE:
            ready = [each for each in servers if each.state is not State.DOWN]
        else:
            ready = [each for each in servers if each.takes(self._endpoints.service)]
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None

    def _behind_front(self) -> Server | None:
        world = self._world
        connection = self if _OWN_CONNECTIONS in self._endpoints.options else FRONT
        alive = [each for each in world.workers if each.state in (State.WELL, State.HUNG)]
        if world.pins.get(connection) not in alive and alive:
            world.pins[connection] = alive[len(world.pins) % len(alive)]
        return world.pins[connection] if alive else None


class ModelledNetwork(TaskNetwork):
    """The network of asyncio, but for name servers: it asks them on a thread, whose time is not the test's."""

    def __init__(self, world: World, channel_to: Callable[[Endpoints], Any]) -> None:
        super().__init__(channel_to, ())
        self._world = world

    async def ask(self, front: Channel) -> pb.Host | None:
        with self._world.looking():
            return await super().ask(front)

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        with self._world.looking():
            if callable(addresses) and not self._world.do_names_answer:
                raise SourceError("the function names nobody")
            while not self._world.do_names_answer:
                await self._world.changed()
            self._world.lookups.append(self._world.clock())
            named = addresses() if callable(addresses) else addresses
            return Found({each: tuple(found) for each in named if (found := self._world.numbers(each))})

    async def check(self, endpoints: Endpoints, heard: set[str]) -> dict[str, Answer]:
        with self._world.looking():
            self._world.look_count += 1
            return await super().check(endpoints, heard)

    async def is_connected(self, channel: Channel) -> bool:
        with self._world.looking():
            return await super().is_connected(channel)


class ModelledClient(aclgrad.AsyncClient):
    """A client whose connections are those of a world."""

    def __init__(self, world: World, target: Any, **options: Any) -> None:
        self._world = world
        super().__init__(target, **options)

    def _new_transport(self) -> TaskTransport:
        clock = self._world.clock
        retries, connect_timeout_s = self._retry_policy.retries, self._retry_policy.connect_timeout_s
        self._retry_policy = RetryPolicy(retries, connect_timeout_s, clock=clock, budget=RetryBudget(clock))
        self._channels = ChannelPool(self._servers, self._new_channel, clock)
        transport = super()._new_transport()
        transport._discovery = DiscoveryTask(self._channels, ModelledNetwork(self._world, self._channel_to))  # noqa: SLF001
        return transport

    def _channel_to(self, endpoints: Endpoints) -> ModelledChannel:
        return ModelledChannel(self._world, endpoints)


def fail(code: grpc.StatusCode, details: str = "") -> NoReturn:
    nothing = grpc.aio.Metadata()
    raise grpc.aio.AioRpcError(code, nothing, nothing, details)
