"""The client for asyncio; its names are those of the synchronous client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc.aio

from aclgrad import _coalesce_tasks, _failures
from aclgrad._arrays import Array
from aclgrad._base import BaseClient
from aclgrad._batch import BaseBatch, BatchRun
from aclgrad._chunked import READY_WAIT_S, ChunkedAnswer, chunked_messages
from aclgrad._coalesce import TimeLimitError
from aclgrad._credentials import open_channel
from aclgrad._descriptions import OperatorDescription
from aclgrad._destination import Output
from aclgrad._exchanges import ChunkedCall, Exchange, Execution, operators_query, path_of, status_query
from aclgrad._loop_threads import in_thread
from aclgrad._message_limit import MessageLimit
from aclgrad._planning import LARGE_BYTES, Input, SentValues, copies_much
from aclgrad._readiness import HEALTH, Readiness
from aclgrad._retry import Attempts
from aclgrad._server_status import ServerStatus
from aclgrad._shared_memory import Loan, RegionPool
from aclgrad._timeouts import DEFAULT, Timeout, time_limit
from aclgrad.errors import AclgradError, DeadlinePassedError, InputValuesRequiredError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.wire.messages import encode_request

_Result = TypeVar("_Result")
_Done = TypeVar("_Done")


class AsyncClient(BaseClient[Awaitable[Array]]):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`), in the event loop of its first call.

    async with aclgrad.AsyncClient("127.0.0.1:50051") as client:
        gradient = await client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    """

    _channel_kind = grpc.aio.Channel

    def _open(self) -> None:
        self._channel: grpc.aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: asyncio.Event = asyncio.Event()
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}

    async def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Array:
        attempts = self._start(Execution.method, timeout_s)
        plan = partial(Execution, name, inputs, attributes, self._sent_values, self._limit, out)
        if not copies_much(inputs):
            return await self._run(plan(), attempts)
        try:
            call = await self._in_thread(plan, attempts)
        except DeadlinePassedError as error:
            attempts.explain(error)
            self._end(attempts, error)
            raise
        attempts.look_from_now()
        return await self._run(call, attempts)

    def batch(self) -> "AsyncBatch":
        return AsyncBatch(self, self._sent_values, self._limit)

    async def list_operators(self, *, timeout_s: Timeout = DEFAULT) -> list[OperatorDescription]:
        query = operators_query()
        return await self._run(query, self._start(query.method, timeout_s))

    async def server_status(self, *, timeout_s: Timeout = DEFAULT) -> ServerStatus:
        query = status_query()
        return await self._run(query, self._start(query.method, timeout_s))

    async def wait_until_ready(self, timeout_s: Timeout = DEFAULT) -> None:
        wait = Readiness(self.target, time_limit(timeout_s, self.timeout_s))
        while True:
            attempts = self._start(HEALTH.method, wait.look_s())
            try:
                seen: str | AclgradError = await self._send(HEALTH, attempts)
            except AclgradError as error:
                attempts.explain(error)
                seen = error
            delay_s = wait.delay_after(seen)
            if delay_s is None:
                return
            await self._pause(delay_s)

    async def close(self) -> None:
        self._closed.set()
        if self._is_inherited:
            return
        try:
            if self._channel is not None and self._own_channel is None:
                await self._bound().close()
        finally:
            # After the calls: otherwise they would fail because their memory cannot be found.
            if self._regions is not None:
                self._regions.close()

    def _bound(self) -> grpc.aio.Channel:
        """Returns the channel, which belongs to the event loop of the first call."""
        loop = asyncio.get_running_loop()
        if self._channel is None:
            if isinstance(self._own_channel, grpc.aio.Channel):
                self._channel = self._own_channel
            else:
                options, compression = self._channel_options, self._compression
                self._channel = open_channel(grpc.aio, self.target, self._channel_credentials, options, compression)
            self._loop = loop
        elif loop is not self._loop:
            raise _failures.wrong_loop_error(self.target)
        return self._channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        try:
            result = await self._repeat(call, attempts)
        except AclgradError as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return result

    async def _run_batch(self, call: BatchRun, timeout_s: Timeout) -> list[Any]:
        """Sends the messages of a batch one after the other, each with its own retries, within one time limit."""
        attempts = self._start(call.method, timeout_s)
        try:
            while call.next_message():
                try:
                    await self._repeat(call, attempts)
                except AclgradError as error:
                    call.fail(error)
                attempts = attempts.of_another_message()
            results = call.results()
        except AclgradError as error:
            self._end(attempts, error)
            raise
        self._end(attempts)
        return results

    async def _repeat(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        """Makes the call, within the time that is left, until it succeeds or its error is final."""
        while True:
            try:
                return await self._send(call, attempts)
            except AclgradError as error:
                amended = await self._amended(call, error, attempts)
                delay_s = attempts.delay_after_s(error) if amended is None else attempts.no_delay_after(error)
                if delay_s is None:
                    attempts.explain(error)
                    raise
            call = amended or call
            await self._pause(delay_s)

    async def _amended(
        self, call: Exchange[_Result], error: AclgradError, attempts: Attempts
    ) -> Exchange[_Result] | None:
        if not isinstance(error, InputValuesRequiredError):
            return call.amend(error)
        try:
            # It copies arrays whose values were withheld.
            return await self._in_thread(partial(call.amend, error), attempts)
        except DeadlinePassedError as late:
            attempts.explain(late)
            raise late from None

    async def _in_thread(self, work: Callable[[], _Done], attempts: Attempts) -> _Done:
        """Does what would hold the event loop; the time limit of the call covers the wait for a thread."""
        try:
            return await in_thread(work, attempts.time_left_s())
        except TimeLimitError:
            raise _failures.deadline_error(self.target) from None

    async def _send(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        """Makes one attempt, with other calls if the client coalesces them."""
        lane = None if self._closed.is_set() else self._lane(call, attempts)
        if lane is None:
            return await self._attempt(call, attempts)
        self._bound()
        try:
            gradient: Any = await _coalesce_tasks.send(lane, call, attempts, self._attempt)
        except TimeLimitError:
            raise _failures.deadline_error(self.target) from None
        return cast(_Result, gradient)

    async def _attempt(self, call: Exchange[_Result], attempts: Attempts) -> _Result:
        if self._closed.is_set():
            raise _failures.closed_error(self.target)
        channel = self._bound()
        try:
            if isinstance(call, Execution) and self._regions is not None:
                return await self._send_shared(channel, call, self._regions, attempts)
            size_bytes = call.size_bytes
            if isinstance(call, Execution | BatchRun) and (chunked := call.in_chunks(size_bytes)):
                return call.take(await self._send_chunks(channel, chunked, attempts))
            if size_bytes > LARGE_BYTES:
                reply = await self._send_large(channel, call.method, lambda: call.request, attempts)
                return await self._in_thread(partial(call.read, reply), attempts)
            return call.read(await self._send_message(channel, call.method, call.request, attempts))
        except grpc.aio.AioRpcError as failure:
            raise _failures.error_of(failure, self.target, is_closed=self._closed.is_set()) from None
        except (asyncio.CancelledError, grpc.aio.UsageError):
            # What grpc.aio does to the calls of a channel that is closed; but a task may be cancelled as well.
            task = asyncio.current_task()
            if task and task.cancelling():
                raise
            if self._closed.is_set():
                raise _failures.closed_error(self.target) from None
            if self._own_channel is not None:
                raise _failures.channel_closed_error(self.target) from None
            raise

    async def _send_large(
        self, channel: grpc.aio.Channel, name: str, encode: Callable[[], bytes], attempts: Attempts
    ) -> bytes:
        """Sends a message that is too large to be encoded on the event loop."""
        request = await self._in_thread(encode, attempts)
        limit_s = attempts.time_left_s()
        try:
            # The core would wait for a full connection to take the rest of the message, even after its deadline.
            async with asyncio.timeout(None if limit_s is None else limit_s + _CLOCK_PRECISION_S):
                return await self._send_message(channel, name, request, attempts)
        except TimeoutError:
            _keep_poller()
            raise _failures.deadline_error(self.target) from None
        except asyncio.CancelledError:
            _keep_poller()
            raise

    async def _send_message(self, channel: grpc.aio.Channel, name: str, request: bytes, attempts: Attempts) -> bytes:
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = channel.unary_unary(path_of(name))
        return await method(request, timeout=attempts.time_left_s(), metadata=self._metadata_of(attempts))

    async def _send_chunks(self, channel: grpc.aio.Channel, chunked: ChunkedCall, attempts: Attempts) -> Array:
        messages = chunked_messages(chunked.call, chunked.chunk_bytes)
        method: Any = channel.stream_stream(path_of("ExecuteOperatorChunked"))
        stream = method(timeout=attempts.time_left_s(), metadata=self._metadata_of(attempts))
        answer = ChunkedAnswer(chunked.destination)
        writer = asyncio.create_task(_write(stream, messages))
        # In time: a write that fails after the status has come would put grpc.aio's own in its place.
        stream.add_done_callback(lambda _: writer.cancel())
        try:
            async for message in stream:
                answer.take(message)
        except grpc.aio.AioRpcError as failure:
            left_s = stream.time_remaining()
            failure = await _own_failure(stream, failure)
            if _failures.hides_a_status(failure) and left_s is not None and left_s < _CLOCK_PRECISION_S:
                raise _failures.deadline_error(self.target) from None
            raise failure
        finally:
            # Does nothing to a call that has ended; any other is not to go on without its reader.
            stream.cancel()
            writer.cancel()
            if not writer.done() or writer.cancelled():
                # Amid a message.
                _keep_poller()
        return await self._in_thread(answer.gradient, attempts) if answer.copies_much else answer.gradient()

    async def _send_shared(
        self, channel: grpc.aio.Channel, call: Execution, regions: RegionPool, attempts: Attempts
    ) -> Array:
        with Loan(regions, call.plan, call.destination) as shared:
            is_large = call.size_bytes > LARGE_BYTES
            planned = await self._in_thread(shared.lend, attempts) if is_large else shared.lend()
            if chunked := call.in_chunks(planned.size_bytes):
                # There was no room for all of it.
                return await self._send_chunks(channel, chunked, attempts)
            encode = partial(encode_request, planned.call)
            if planned.size_bytes > LARGE_BYTES:
                reply = await self._send_large(channel, call.method, encode, attempts)
            else:
                reply = await self._send_message(channel, call.method, encode(), attempts)
            read = partial(shared.read, reply)
            return await self._in_thread(read, attempts) if shared.copies_much else read()

    async def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; a client that is closed meanwhile makes no further attempt."""
        try:
            async with asyncio.timeout(delay_s):
                await self._closed.wait()
        except TimeoutError:
            return
        raise _failures.closed_error(self.target)


_CLOCK_PRECISION_S = 0.05
"""The core's clock may be ahead of ours by so much."""
_STATUS_PERIOD_S = 0.01
_STATUS_PERIODS = 20
"""How often, and how many times, the status is looked for with which a call has ended."""
_CALL_ENDED = (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""What grpc.aio raises where a call has ended while it was written to; its status comes to whoever reads."""


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
        if not _failures.hides_a_status(failure):
            break
        await asyncio.sleep(_STATUS_PERIOD_S)
        headers, trailers = await stream.initial_metadata(), await stream.trailing_metadata()
        failure = grpc.aio.AioRpcError(await stream.code(), headers, trailers, await stream.details())
    return failure


class AsyncBatch(BaseBatch):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = await batch.run()
    """

    def __init__(self, client: AsyncClient, sent_values: SentValues, limit: MessageLimit) -> None:
        super().__init__(sent_values, limit)
        self._client = client

    async def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> list[Any]:
        return await self._client._run_batch(self.to_send(return_errors), timeout_s)  # noqa: SLF001 - the two are one
