"""One attempt of a call on a channel of grpc.aio: the messages that go out, and the bytes that come back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, cast

import grpc.aio

from aclgrad._client.attempts import rpc_errors
from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.base_client import Prepare, Prepared
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.chunked import READY_WAIT_S, ChunkedAnswer, chunked_messages
from aclgrad._client.calls.exchanges import CHUNKED, ChunkedCall
from aclgrad._client.channel.probes import Channel
from aclgrad._client.settings.metadata import server_of
from aclgrad.wire.service import path_of

_CLOCK_PRECISION_S = 0.05
"""The core's clock may be ahead of ours by so much."""
_STATUS_PERIOD_S = 0.01
_STATUS_PERIODS = 20
"""How often, and how many times, the status is looked for with which a call has ended."""
_CALL_ENDED = (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""What grpc.aio raises where a call has ended while it was written to; its status comes to whoever reads."""


class InThread(Protocol):
    def __call__(self, work: Callable[[], Any], attempts: Attempts) -> Awaitable[Any]: ...


class Sender:
    """Sends what the calls of a client are made of; `in_thread` does what would hold the event loop."""

    def __init__(self, target: str, prepare: Prepare, in_thread: InThread) -> None:
        self._target = target
        self._prepare = prepare
        self._in_thread = in_thread

    async def message(self, channel: Channel, name: str, request: bytes, attempts: Attempts) -> bytes:
        """Returns the reply; raises grpc.aio.AioRpcError, and what grpc.aio does to calls of a closed channel."""
        return await self._message(channel, name, request, attempts, self._prepare(channel, attempts, name))

    async def large(self, channel: Channel, name: str, encode: Callable[[], bytes], attempts: Attempts) -> bytes:
        """Sends a message that is too large to be encoded on the event loop."""
        request = await self._in_thread(encode, attempts)
        prepared = self._prepare(channel, attempts, name)
        try:
            # The core would wait for a full connection to take the rest of the message, even after its deadline.
            async with asyncio.timeout(None if prepared.limit_s is None else prepared.limit_s + _CLOCK_PRECISION_S):
                return await self._message(channel, name, request, attempts, prepared)
        except TimeoutError:
            _keep_poller()
            raise rpc_errors.deadline_error(self._target) from None
        except asyncio.CancelledError:
            _keep_poller()
            raise

    async def chunks(self, channel: Channel, chunked: ChunkedCall, attempts: Attempts) -> Array:
        """Returns the gradient; raises what `message` raises."""
        method: Any = channel.grpc.stream_stream(path_of(CHUNKED))
        limit_s, metadata, wants_server = self._prepare(channel, attempts, CHUNKED)
        stream = method(timeout=attempts.time_left_s(), metadata=metadata)
        answer = ChunkedAnswer(chunked.destination)
        idle_timeout = _IdleTimeout(limit_s if attempts.may_move else None)
        messages = chunked_messages(chunked.call, chunked.chunk_bytes)
        writer = asyncio.create_task(_write(stream, idle_timeout.through(messages)))
        # In time: a write that fails after the status has come would put grpc.aio's own in its place.
        stream.add_done_callback(lambda _: writer.cancel())
        try:
            async with idle_timeout.timeout:
                async for message in stream:
                    idle_timeout.ends()
                    answer.take(message)
            if wants_server:
                attempts.server = server_of(await stream.trailing_metadata())
        except TimeoutError:
            raise rpc_errors.deadline_error(self._target) from None
        except grpc.aio.AioRpcError as failure:
            left_s = stream.time_remaining()
            failure = await _own_failure(stream, failure)
            if rpc_errors.hides_a_status(failure) and left_s is not None and left_s < _CLOCK_PRECISION_S:
                raise rpc_errors.deadline_error(self._target) from None
            raise failure
        finally:
            # Does nothing to a call that has ended; any other is not to go on without its reader.
            stream.cancel()
            writer.cancel()
            if not writer.done() or writer.cancelled():
                # Amid a message.
                _keep_poller()
        gradient = await self._in_thread(answer.gradient, attempts) if answer.copies_much else answer.gradient()
        return cast(Array, gradient)

    async def _message(
        self, channel: Channel, name: str, request: bytes, attempts: Attempts, prepared: Prepared
    ) -> bytes:
        method = channel.methods.get(name)
        if method is None:
            method = channel.methods[name] = channel.grpc.unary_unary(path_of(name))
        call = method(request, timeout=prepared.limit_s, metadata=prepared.metadata)
        reply = await _reply_of(call)
        if prepared.wants_server:
            attempts.server = server_of(await call.trailing_metadata())
        return reply


class _IdleTimeout:
    """How long it is since a message went out or came in; `timeout` gives the attempt up."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self.timeout = asyncio.timeout(limit_s)

    def through(self, messages: Iterable[bytes]) -> Iterator[bytes]:
        """Returns the messages. One that is taken has moved, and so has the one before it."""
        for each in messages:
            self.ends()
            yield each

    def ends(self) -> None:
        """Notes that something has moved."""
        if self._limit_s is not None:
            # The attempt may have ended.
            with suppress(RuntimeError):
                self.timeout.reschedule(asyncio.get_running_loop().time() + self._limit_s)


async def _reply_of(call: Any) -> bytes:
    """Returns the reply. A call that is cancelled ends at the server, too, and leaves no memory.

    grpc.aio frees neither message nor operations if its own task is cancelled (grpc/grpc#43360): only its core is told.
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

    It would end with the last channel, which then waits on the event loop for messages stuck in a connection.
    """
    grpc.aio.init_grpc_aio()


async def _write(stream: Any, messages: Iterator[bytes]) -> None:
    with suppress(*_CALL_ENDED):
        await stream.write(next(messages))
        # A server that is ready for chunks says so, and one that refuses the call ends it.
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WAIT_S):
                await stream.initial_metadata()
        for message in messages:
            await stream.write(message)
        await stream.done_writing()


async def _own_failure(stream: Any, failure: grpc.aio.AioRpcError) -> grpc.aio.AioRpcError:
    """Returns the failure with the call's own status, which soon takes the place of one that grpc.aio made up.

    Where it came before that one, it is lost.
    """
    for _ in range(_STATUS_PERIODS):
        if not rpc_errors.hides_a_status(failure):
            break
        await asyncio.sleep(_STATUS_PERIOD_S)
        headers, trailers = await stream.initial_metadata(), await stream.trailing_metadata()
        failure = grpc.aio.AioRpcError(await stream.code(), headers, trailers, await stream.details())
    return failure
