"""The transport of a client for asyncio: grpc.aio, tasks, and threads for work that would hold the event loop."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from typing import Any, ClassVar, Final, TypeVar, cast

import grpc.aio

from aclgrad._client.aio.discovery import DiscoveryTask, TaskNetwork
from aclgrad._client.attempts import rpc_errors
from aclgrad._client.attempts.progress import Progress
from aclgrad._client.calls.chunked import READY_WAIT_S, ChunkedProgram
from aclgrad._client.calls.requirements import LARGE_BYTES
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import Channel
from aclgrad._client.channel.servers import Endpoints
from aclgrad._client.settings.checks import TimeLimitError
from aclgrad._client.settings.metadata import Pair
from aclgrad._client.transport import Sending
from aclgrad.wire.service import path_of

_Done = TypeVar("_Done")
_CLOCK_PRECISION_S: Final = 0.05
"""The core's clock may be ahead of ours by this much."""
_STATUS_PERIOD_S: Final = 0.01
_STATUS_PERIODS: Final = 20
"""Interval and number of looks for the final status of a call."""
_CALL_ENDED: Final = (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""grpc.aio's errors of a write after the call has ended; the reader gets the status."""


class TaskTransport:
    """Waits in the event loop of the first call; `open_first` opens the first channel there."""

    may_leave_locks: ClassVar[bool] = False

    def __init__(
        self,
        target: str,
        channels: ChannelPool,
        channel_to: Callable[[Endpoints], Any],
        metadata: Sequence[Pair],
        open_first: Callable[[], None],
    ) -> None:
        self.closed = asyncio.Event()
        self._target = target
        self._channels = channels
        self._open_first = open_first
        self._discovery = DiscoveryTask(channels, TaskNetwork(channel_to, metadata))
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._open_first()
        elif loop is not self._loop:
            raise rpc_errors.wrong_loop_error(self._target)

    async def message(self, request: bytes, sending: Sending) -> tuple[bytes, Any]:
        channel, method, limit_s, metadata, wants_trailers = sending
        begin = channel.methods.get(method)
        if begin is None:
            begin = channel.methods[method] = channel.grpc.unary_unary(path_of(method))
        call = begin(request, timeout=limit_s, metadata=metadata)
        if len(request) > LARGE_BYTES:
            reply = await _large_reply_of(call, limit_s)
        else:
            reply = await _reply_of(call)
        return reply, await call.trailing_metadata() if wants_trailers else None

    async def chunks(self, sending: Sending, call: ChunkedProgram[Any], progress: Progress) -> Any:
        method: Any = sending.channel.grpc.stream_stream(path_of(sending.method))
        stream = method(timeout=sending.limit_s, metadata=sending.metadata)
        writer = asyncio.create_task(_write(stream, progress.outgoing(call.messages())))
        # In time: a write that fails after the status has arrived would replace it by grpc.aio's own.
        stream.add_done_callback(lambda _: writer.cancel())
        timeout = asyncio.timeout(None)
        watch = asyncio.create_task(_watch(progress, timeout))
        try:
            async with timeout:
                async for message in stream:
                    progress.moved()
                    call.take(message)
            return await stream.trailing_metadata() if sending.wants_trailers else None
        except TimeoutError:
            raise TimeLimitError from None
        except grpc.aio.AioRpcError as failure:
            left_s = stream.time_remaining()
            failure = await _own_failure(stream, failure)
            if rpc_errors.hides_a_status(failure) and left_s is not None and left_s < _CLOCK_PRECISION_S:
                raise TimeLimitError from None
            raise failure
        finally:
            # Does nothing if the call has ended; otherwise it must not go on without its reader.
            stream.cancel()
            watch.cancel()
            writer.cancel()
            if not writer.done() or writer.cancelled():
                # In the middle of a message.
                _keep_poller()

    def means_closed(self, error: BaseException) -> bool:
        # A task may be cancelled, too.
        task = asyncio.current_task()
        is_cancelled = isinstance(error, asyncio.CancelledError) and not (task and task.cancelling())
        return is_cancelled or isinstance(error, grpc.aio.UsageError)

    async def beside(self, work: Callable[[], _Done], limit_s: float | None) -> _Done:
        return await in_thread(work, limit_s)

    async def pause(self, delay_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self.closed.wait()

    def discover(self) -> None:
        self._discovery.start()

    async def discovered(self, limit_s: float | None) -> None:
        await self._discovery.wait(limit_s)

    def close_channel(self, channel: Channel) -> None:
        self._discovery.close(channel)

    async def close(self) -> None:
        if self._loop is not None:
            self.bind()
            await asyncio.gather(*(channel.grpc.close() for channel in self._channels.close()))
            await self._discovery.end()


async def _watch(progress: Progress, timeout: asyncio.Timeout) -> None:
    """Ends the block of the timeout if the silence lasts too long."""
    while (left_s := progress.silence_left_s) is not None:
        if left_s <= 0:
            # The attempt may have ended.
            with suppress(RuntimeError):
                timeout.reschedule(asyncio.get_running_loop().time())
            return
        await asyncio.sleep(left_s)


async def _large_reply_of(call: Any, limit_s: float | None) -> bytes:
    """Returns the reply to a large message, as a stream: a unary call may wait beyond its deadline."""
    try:
        async with asyncio.timeout(None if limit_s is None else limit_s + _CLOCK_PRECISION_S):
            return await _reply_of(call)
    except TimeoutError:
        _keep_poller()
        raise TimeLimitError from None
    except asyncio.CancelledError:
        _keep_poller()
        raise


async def _reply_of(call: Any) -> bytes:
    """Returns the reply. A cancelled call ends at the server, too, and leaks no memory.

    If its own task is cancelled, grpc.aio frees neither message nor operations (grpc/grpc#43360), so only the core call
    is cancelled.
    """
    task, core = getattr(call, "_call_response", None), getattr(call, "_cython_call", None)
    if task is not None and core is not None:
        # A call with interceptors has neither.
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                core.cancel("the caller cancelled the call")
            raise
    return cast(bytes, await call)


@cache
def _keep_poller() -> None:
    """Keeps grpc.aio's poller until the process ends.

    Otherwise it ends with the last channel, which then blocks the event loop for messages stuck in a connection.
    """
    grpc.aio.init_grpc_aio()


async def _write(stream: Any, messages: Iterator[bytes]) -> None:
    with suppress(*_CALL_ENDED):
        await stream.write(next(messages))
        # A server announces that it is ready for chunks, or ends the call to refuse it.
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WAIT_S):
                await stream.initial_metadata()
        for message in messages:
            await stream.write(message)
        await stream.done_writing()


async def _own_failure(stream: Any, failure: grpc.aio.AioRpcError) -> grpc.aio.AioRpcError:
    """Returns the failure with the call's own status, which soon replaces grpc.aio's; if it came first, it is lost."""
    for _ in range(_STATUS_PERIODS):
        if not rpc_errors.hides_a_status(failure):
            break
        await asyncio.sleep(_STATUS_PERIOD_S)
        headers, trailers = await stream.initial_metadata(), await stream.trailing_metadata()
        failure = grpc.aio.AioRpcError(await stream.code(), headers, trailers, await stream.details())
    return failure


async def in_thread(work: Callable[[], _Done], limit_s: float | None) -> _Done:
    """Returns what the work returns; raises TimeLimitError if no thread was free for it in time.

    Work that has begun is awaited, because it may write to an array of the caller.
    """
    # Whoever takes it first decides: the thread begins it, or the loop abandons it.
    held = [work]

    def run() -> _Done | None:
        mine = _take(held)
        return None if mine is None else mine()

    future = asyncio.get_running_loop().run_in_executor(None, copy_context().run, run)
    try:
        await asyncio.wait([future], timeout=None if limit_s is None else max(0.0, limit_s))
        if not future.done() and _take(held) is not None:
            future.cancel()
            raise TimeLimitError
        return cast(_Done, await future)
    except asyncio.CancelledError:
        future.cancel()
        raise
    finally:
        # The error's traceback has this frame, which has the future, which has the error.
        del future


def _take(held: list[Callable[[], _Done]]) -> Callable[[], _Done] | None:
    with suppress(IndexError):
        return held.pop()
    return None
