"""Looks at servers for asyncio, in a task that starts when there is something to learn."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from aclgrad._client.channel.network import Answer, Line
from aclgrad._client.channel.pool import Lines
from aclgrad._client.channel.probes import (
    ASK_S,
    CHECK,
    CHECK_S,
    CONNECT_S,
    LIST,
    LIST_REQUEST,
    answer_of,
    check_request,
    host_of,
)
from aclgrad._client.channel.resolver import Found, look_up
from aclgrad._client.channel.servers import Route
from aclgrad._client.settings.metadata import Pair
from aclgrad.v1 import operator_service_pb2 as pb

_CLOSED: Final = grpc.aio.UsageError
"""What grpc.aio raises for a channel that was closed."""


class TaskNetwork:
    """The network of an event loop."""

    def __init__(self, channel_to: Callable[[Route], Any], metadata: Sequence[Pair]) -> None:
        self._channel_to = channel_to
        self._metadata = metadata
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, front: Line) -> pb.Host | None:
        try:
            method = front.channel.unary_unary(LIST)
            return host_of(await method(LIST_REQUEST, timeout=ASK_S, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            return host_of(None, error.code())
        except _CLOSED:
            return None

    async def look_up(self, addresses: Sequence[str]) -> Found:
        """Asks on a thread that nobody waits for: asyncio.run waits for its own, however long a name server takes."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Found] = loop.create_future()

        def finish(told: Found) -> None:
            if not found.done():
                found.set_result(told)

        def run() -> None:
            told = look_up(addresses)
            # The loop may have been closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, told)

        try:
            threading.Thread(target=run, name="aclgrad-names", daemon=True).start()
        except RuntimeError:
            # No more threads.
            return {}
        return await found

    async def check(self, routes: Sequence[Route]) -> list[Answer]:
        return await asyncio.gather(*map(self._check, routes))

    async def _check(self, route: Route) -> Answer:
        async with self._channel_to(route) as channel:
            try:
                return answer_of(await channel.unary_unary(CHECK)(check_request(route), timeout=CHECK_S))
            except grpc.aio.AioRpcError as error:
                return answer_of(None, error.code())

    async def open(self, route: Route) -> Line:
        return Line(route, self._channel_to(route))

    async def is_connected(self, line: Line) -> bool:
        try:
            method = line.channel.unary_unary(CHECK)
            await method(check_request(line.route), timeout=CONNECT_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return answer_of(None, error.code()) is Answer.STRANGER
        except _CLOSED:
            return False
        return True

    def close(self, line: Line) -> None:
        self.begin(line.channel.close())

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


class LookTask:
    """Has a task learn what is due, one at a time."""

    def __init__(self, lines: Lines, network: TaskNetwork) -> None:
        self._lines = lines
        self._network = network
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins what is due, unless that is under way."""
        if self._lines.is_due and self._lines.begin():
            self._task = asyncio.create_task(self._lines.learn(self._network), name="aclgrad-look")

    async def wait(self, limit_s: float | None) -> None:
        """Waits until what is under way has ended, or for so long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=None if limit_s is None else max(0.0, limit_s))

    def close(self, line: Line) -> None:
        """Closes a channel that no call uses any more."""
        self._network.close(line)

    async def end(self) -> None:
        """Ends what is under way, and waits for channels that are being closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._network.end()
