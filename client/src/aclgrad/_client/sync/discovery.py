"""Discovery of servers for synchronous code, on a thread that starts when there is something to discover."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import grpc

from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import (
    ASK_S,
    CHECK,
    CONNECT_S,
    FIRST_CHECK_S,
    LIST,
    LIST_REQUEST,
    Answer,
    Channel,
    Hear,
    answer_of,
    check_request,
    host_of,
    silence_s,
)
from aclgrad._client.channel.proxies import ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found, look_up
from aclgrad._client.channel.servers import Endpoints
from aclgrad._client.settings.metadata import Pair
from aclgrad.v1 import operator_service_pb2 as pb

_CLOSED: Final = ValueError
"""What grpc raises for a channel that was closed."""


class ThreadNetwork:
    """The network of a thread: its coroutines block and never wait for an event loop."""

    def __init__(self, channel_to: Callable[[Endpoints], Any], metadata: Sequence[Pair]) -> None:
        self._channel_to = channel_to
        self._metadata = metadata

    async def ask(self, front: Channel) -> pb.Host | None:
        try:
            method = front.grpc.unary_unary(LIST)
            return host_of(method(LIST_REQUEST, timeout=ASK_S, metadata=self._metadata))
        except grpc.RpcError as error:
            return host_of(None, error.code())
        except _CLOSED:
            return None

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        return look_up(addresses, rules)

    async def check(self, servers: Sequence[Endpoints], hear: Hear) -> list[Answer]:
        channels = [self._channel_to(endpoints) for endpoints in servers]
        try:
            calls: list[Any] = [
                channel.unary_unary(CHECK).future(check_request(endpoints), timeout=FIRST_CHECK_S)
                for channel, endpoints in zip(channels, servers, strict=True)
            ]
            _wait(calls, servers, hear)
            return [_answer(call) if call.done() else Answer.SILENT for call in calls]
        finally:
            for channel in channels:
                channel.close()

    async def is_connected(self, channel: Channel) -> bool:
        try:
            channel.grpc.unary_unary(CHECK)(check_request(channel.endpoints), timeout=CONNECT_S, wait_for_ready=True)
        except grpc.RpcError as error:
            return answer_of(None, error.code()) is Answer.STRANGER
        except _CLOSED:
            return False
        return True

    def close(self, channel: Channel) -> None:
        close(channel)


def close(channel: Channel) -> threading.Thread | None:
    """Closes a channel, which ends its calls at once. Returns the thread that may still wait for the connection.

    grpc waits for a connection that a stopped server has left full of bytes, until the kernel gives it up.
    """
    closer = threading.Thread(target=channel.grpc.close, name="aclgrad-close", daemon=True)
    try:
        closer.start()
    except RuntimeError:
        # The interpreter ends and starts no more threads.
        channel.grpc.close()
        return None
    return closer


class DiscoveryThread:
    """Has a thread discover what is due, one at a time."""

    def __init__(self, channels: ChannelPool, network: ThreadNetwork) -> None:
        self._channels = channels
        self._network = network
        self._starting = threading.Lock()
        """Held until the thread runs, so that whoever waits finds it."""
        self._thread: threading.Thread | None = None
        self._is_settled = threading.Event()
        """Set when the latest discovery has ended, or nobody waits for it any more."""
        self._is_settled.set()

    def start(self) -> None:
        """Begins what is due, unless that is under way."""
        if not self._channels.is_discovery_due:
            return
        with self._starting:
            if not self._channels.begin_discovery():
                return
            settled = threading.Event()
            thread = threading.Thread(target=self._discover, args=(settled,), name="aclgrad-discovery", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # No more threads: the channel that is in use will do.
                self._channels.give_up_discovery()
            else:
                self._thread, self._is_settled = thread, settled

    def wait(self, limit_s: float | None) -> None:
        """Waits until what is under way has ended, or for so long; `release` ends all waits."""
        with self._starting:
            settled = self._is_settled
        settled.wait(None if limit_s is None else max(0.0, limit_s))

    def release(self) -> None:
        """Has nobody wait any more: a user's function, or a name server, may take for ever."""
        with self._starting:
            self._is_settled.set()

    def join(self, limit_s: float) -> None:
        """Waits until the thread has ended, or for so long."""
        if self._thread is not None:
            self._thread.join(max(0.0, limit_s))

    def _discover(self, settled: threading.Event) -> None:
        try:
            # The coroutines of this network never wait, so the first step is the last.
            with suppress(StopIteration):
                self._channels.discover(self._network).send(None)
        finally:
            settled.set()


def _wait(calls: Sequence[Any], servers: Sequence[Endpoints], hear: Hear) -> None:
    """Waits until all have answered, or those that have not are silent."""
    answered: SimpleQueue[tuple[Endpoints, Any]] = SimpleQueue()
    for call, endpoints in zip(calls, servers, strict=True):
        call.add_done_callback(lambda call, endpoints=endpoints: answered.put((endpoints, call)))
    begin, limit_s = time.monotonic(), FIRST_CHECK_S
    for _ in calls:
        try:
            endpoints, call = answered.get(timeout=max(0.0, begin + limit_s - time.monotonic()))
        except Empty:
            return
        if _answer(call) is Answer.HERE:
            hear(endpoints)
            limit_s = silence_s(time.monotonic() - begin, limit_s)


def _answer(call: Any) -> Answer:
    try:
        return answer_of(call.result())
    except grpc.RpcError as error:
        error.__traceback__ = None
        return answer_of(None, error.code())
