"""Discovery of servers for asyncio, in a task that starts when there is something to discover."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc.aio

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

_CLOSED: Final = grpc.aio.UsageError
"""What grpc.aio raises for a channel that was closed."""


class TaskNetwork:
    """The network of an event loop."""

    def __init__(self, channel_to: Callable[[Endpoints], Any], metadata: Sequence[Pair]) -> None:
        self._channel_to = channel_to
        self._metadata = metadata
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, front: Channel) -> pb.Host | None:
        try:
            method = front.grpc.unary_unary(LIST)
            return host_of(await method(LIST_REQUEST, timeout=ASK_S, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            return host_of(None, error.code())
        except _CLOSED:
            return None

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        """Asks on a thread that nobody waits for: asyncio.run waits for its own, however long a name server takes."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Found] = loop.create_future()

        def finish(told: Found, error: BaseException | None) -> None:
            if found.done():
                return
            if error is None:
                found.set_result(told)
            else:
                found.set_exception(error)

        def run() -> None:
            told = Found({})
            failure = None
            try:
                told = look_up(addresses, rules)
            except BaseException as error:  # whatever it is, somebody waits
                failure = error
            # The loop may have been closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, told, failure)

        try:
            threading.Thread(target=run, name="aclgrad-names", daemon=True).start()
        except RuntimeError:
            # No more threads.
            return Found({})
        return await found

    async def check(self, servers: Sequence[Endpoints], hear: Hear) -> list[Answer]:
        tasks = [asyncio.create_task(self._check(endpoints, hear)) for endpoints in servers]
        try:
            await _wait(tasks)
            return [task.result() if task.done() else Answer.SILENT for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _check(self, endpoints: Endpoints, hear: Hear) -> Answer:
        async with self._channel_to(endpoints) as channel:
            try:
                answer = answer_of(await channel.unary_unary(CHECK)(check_request(endpoints), timeout=FIRST_CHECK_S))
            except grpc.aio.AioRpcError as error:
                return answer_of(None, error.code())
            if answer is Answer.HERE:
                hear(endpoints)
            return answer

    async def is_connected(self, channel: Channel) -> bool:
        try:
            method = channel.grpc.unary_unary(CHECK)
            await method(check_request(channel.endpoints), timeout=CONNECT_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return answer_of(None, error.code()) is Answer.STRANGER
        except _CLOSED:
            return False
        return True

    def close(self, channel: Channel) -> None:
        self.begin(channel.grpc.close())

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task; asyncio itself keeps none alive."""
        task = asyncio.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def end(self) -> None:
        """Waits for the channels that are being closed."""
        if self._closing:
            await asyncio.wait(self._closing)


async def _wait(tasks: Sequence[asyncio.Task[Answer]]) -> None:
    """Waits until all have answered, or those that have not are silent."""
    loop, silent, limit_s = asyncio.get_running_loop(), set(tasks), FIRST_CHECK_S
    begin = loop.time()
    while silent:
        left_s = max(0.0, begin + limit_s - loop.time())
        answered, silent = await asyncio.wait(silent, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if not answered:
            return
        if any(task.result() is Answer.HERE for task in answered):
            limit_s = silence_s(loop.time() - begin, limit_s)


class DiscoveryTask:
    """Has a task discover what is due, one at a time."""

    def __init__(self, channels: ChannelPool, network: TaskNetwork) -> None:
        self._channels = channels
        self._network = network
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins what is due, unless that is under way."""
        if self._channels.is_discovery_due and self._channels.begin_discovery():
            self._task = asyncio.create_task(self._channels.discover(self._network), name="aclgrad-discovery")

    async def wait(self, limit_s: float | None) -> None:
        """Waits until what is under way has ended, or for so long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=None if limit_s is None else max(0.0, limit_s))

    def close(self, channel: Channel) -> None:
        """Closes a channel that no call uses any more."""
        self._network.close(channel)

    async def end(self) -> None:
        """Ends what is under way, and waits for channels that are being closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._network.end()
