"""Discovery of servers for asyncio, in a task that starts when there is something to discover."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, cast

import grpc.aio

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
from aclgrad._client.settings.metadata import Pair

_CLOSED: Final = grpc.aio.UsageError
"""grpc.aio's error for a closed channel."""


class TaskNetwork(Network):
    """The network of an event loop."""

    def __init__(self, channel_to: Callable[[Endpoints], Any], metadata: Sequence[Pair]) -> None:
        super().__init__(channel_to, metadata)
        self._closing: set[asyncio.Task[None]] = set()

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        """Asks on a separate thread: asyncio.run waits for its own threads, however long a name server takes."""
        found: Future[Found] = Future()

        def run() -> None:
            # It cannot be cancelled from here on, and may outlive the loop.
            if found.set_running_or_notify_cancel():
                try:
                    found.set_result(look_up(addresses, rules))
                except BaseException as error:  # of any kind, because somebody waits
                    found.set_exception(error)

        try:
            threading.Thread(target=run, name="aclgrad-names", daemon=True).start()
        except RuntimeError:
            # No more threads.
            return Found({})
        return await asyncio.wrap_future(found)

    async def check(self, endpoints: Endpoints, heard: set[str]) -> dict[str, Answer]:
        loop, limit_s = asyncio.get_running_loop(), FIRST_CHECK_S
        begin = loop.time()
        servers = one_by_one(endpoints).items()
        tasks = {each: asyncio.create_task(self._check(each, server, heard)) for each, server in servers}
        answered, silent = set(tasks.values()), set(tasks.values())
        try:
            while answered and silent:
                left_s = max(0.0, begin + limit_s - loop.time())
                answered, silent = await asyncio.wait(silent, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() is Answer.HERE for task in answered):
                    limit_s = silence_s(loop.time() - begin, limit_s)
            return {each: task.result() if task.done() else Answer.SILENT for each, task in tasks.items()}
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _check(self, address: str, endpoints: Endpoints, heard: set[str]) -> Answer:
        async with self._channel_to(endpoints) as channel:
            reply = await self._reply(channel, CHECK, check_request(endpoints), timeout=FIRST_CHECK_S)
            answer = answer_of(reply)
            if answer is Answer.HERE:
                heard.add(address)
            return answer

    async def _reply(self, channel: Any, path: str, request: bytes, **options: Any) -> Reply:
        try:
            return cast(bytes, await channel.unary_unary(path)(request, **options))
        except grpc.aio.AioRpcError as error:
            return error.code()
        except _CLOSED:
            return UNREACHABLE

    def close(self, channel: Channel) -> None:
        task = asyncio.create_task(channel.grpc.close())
        # asyncio does not keep tasks alive.
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def end(self) -> None:
        """Waits for the channels that are being closed."""
        if self._closing:
            await asyncio.wait(self._closing)


class DiscoveryTask:
    """Runs due discoveries in a task, one at a time."""

    def __init__(self, channels: ChannelPool, network: TaskNetwork) -> None:
        self._channels = channels
        self._network = network
        self._discovery = Discovery(channels, network)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins a due discovery, unless one is under way."""
        if self._channels.is_discovery_due and self._channels.begin_discovery():
            self._task = asyncio.create_task(self._discovery.run(), name="aclgrad-discovery")

    async def wait(self, limit_s: float | None) -> None:
        """Waits until the discovery under way has ended, or for this long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=None if limit_s is None else max(0.0, limit_s))

    def close(self, channel: Channel) -> None:
        """Closes an unused channel."""
        self._network.close(channel)

    async def end(self) -> None:
        """Ends the discovery under way, and waits for channels that are being closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._network.end()
