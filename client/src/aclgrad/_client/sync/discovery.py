"""Discovery of servers for synchronous code, on a thread that starts when there is something to discover."""

import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, cast

import grpc

from aclgrad._client.channel.discovery import Discovery
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import (
    CHECK,
    FIRST_CHECK_S,
    UNREACHABLE,
    Answer,
    Channel,
    Network,
    Reply,
    answer_of,
    check_request,
    silence_s,
)
from aclgrad._client.channel.proxies import ProxyRules
from aclgrad._client.channel.resolver import Addresses, Found, look_up
from aclgrad._client.channel.servers import Endpoints, one_by_one

_CLOSED: Final = ValueError
"""grpc's error for a closed channel."""


class ThreadNetwork(Network):
    """The network of a thread: its coroutines block, and never wait for an event loop."""

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        return look_up(addresses, rules)

    async def check(self, endpoints: Endpoints, heard: set[str]) -> dict[str, Answer]:
        channels = {each: self._channel_to(server) for each, server in one_by_one(endpoints).items()}
        answers = dict.fromkeys(channels, Answer.SILENT)
        answered: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        begin, limit_s = time.monotonic(), FIRST_CHECK_S
        try:
            for each, channel in channels.items():
                call = channel.unary_unary(CHECK).future(check_request(endpoints), timeout=FIRST_CHECK_S)
                call.add_done_callback(lambda call, each=each: answered.put((each, call)))
            for _ in channels:
                each, call = answered.get(timeout=max(0.0, begin + limit_s - time.monotonic()))
                # A raised status would keep its call and this frame in a cycle.
                answers[each] = answer_of(call.result() if call.code() is grpc.StatusCode.OK else call.code())
                if answers[each] is Answer.HERE:
                    heard.add(each)
                    limit_s = silence_s(time.monotonic() - begin, limit_s)
        except Empty:
            # The others are silent.
            pass
        finally:
            for channel in channels.values():
                channel.close()
        return answers

    async def _reply(self, channel: Any, path: str, request: bytes, **options: Any) -> Reply:
        try:
            return cast(bytes, channel.unary_unary(path)(request, **options))
        except grpc.RpcError as error:
            return error.code()
        except _CLOSED:
            return UNREACHABLE

    def close(self, channel: Channel) -> None:
        close(channel)


def close(channel: Channel) -> threading.Thread | None:
    """Closes a channel, which ends its calls at once. Returns the thread that may still wait for the connection.

    If a stopped server left a connection full of bytes, grpc waits until the kernel gives it up.
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
    """Runs due discoveries in a thread, one at a time."""

    def __init__(self, channels: ChannelPool, network: ThreadNetwork) -> None:
        self._channels = channels
        self._discovery = Discovery(channels, network)
        self._starting = threading.Lock()
        """Held until the thread runs, so that waiters find it."""
        self._thread: threading.Thread | None = None
        self._is_settled = threading.Event()
        """Set when the latest discovery has ended, or its waiters are released."""
        self._is_settled.set()

    def start(self) -> None:
        """Begins a due discovery, unless one is under way."""
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
                # No more threads: the current channel has to do.
                self._channels.end_discovery()
            else:
                self._thread, self._is_settled = thread, settled

    def wait(self, limit_s: float | None) -> None:
        """Waits until the discovery under way has ended, or for this long; `release` ends all waits."""
        with self._starting:
            settled = self._is_settled
        settled.wait(None if limit_s is None else max(0.0, limit_s))

    def release(self) -> None:
        """Ends all waits: a user's function or a name server may never return."""
        with self._starting:
            self._is_settled.set()

    def join(self, limit_s: float) -> None:
        """Waits until the thread has ended, or for this long."""
        if self._thread is not None:
            self._thread.join(max(0.0, limit_s))

    def _discover(self, settled: threading.Event) -> None:
        try:
            # Coroutines of this network never wait, so the first step is the last.
            with suppress(StopIteration):
                self._discovery.run().send(None)
        finally:
            settled.set()
