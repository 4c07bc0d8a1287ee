"""The client for asyncio; its names are those of the synchronous client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc.aio

from aclgrad import _calls, _channel
from aclgrad._batch import BatchCall, CollectedCalls
from aclgrad._calls import LARGE_BYTES, Array, Call, ExecuteCall, Input, SentValues
from aclgrad._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_S, ChannelOption, Compression
from aclgrad._chunked import READY_WAIT_S, ChunkedAnswer, chunked_messages
from aclgrad._message_limit import MessageLimit
from aclgrad._operator_methods import OperatorMethods
from aclgrad._retry import DEFAULT_CONNECT_TIMEOUT_S, DEFAULT_RETRIES, Attempts, RetryPolicy
from aclgrad._settings import checked_seconds
from aclgrad._shared_memory import RegionPool, SharedCall
from aclgrad._target import checked_target
from aclgrad.errors import AclgradError
from aclgrad.operators.attributes import AttributeLike
from aclgrad.v1.operator_service_pb2 import GetServerStatusResponse, OperatorDescription
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES
from aclgrad.wire.messages import OperatorCall, encode_request

_Result = TypeVar("_Result")


class AsyncClient(OperatorMethods[Awaitable[Array]]):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`), in the event loop of its first call.

        async with aclgrad.AsyncClient("127.0.0.1:50051") as client:
            gradient = await client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))

    A call that takes longer than `timeout_s` seconds, with all its attempts, raises DeadlinePassedError; None sets no
    limit. If the connection breaks, or the server asks for it, a call is sent again up to `retries` times, after delays
    that grow; the error of the last attempt is raised. If no server can be reached, a call waits up to
    `connect_timeout_s` seconds for one; that takes none of its retries. `compression="gzip"` compresses requests.
    Whatever a call raises is an `aclgrad.AclgradError`.

    Of an array that an operator needs only the shape of, such as `input` of most, the shape alone is sent. A server
    whose device may read the values asks for them; the array is then sent, and in later calls of that operator at
    once. `shape_only=False` sends every array. `channel_options` are options of gRPC that go before the client's own.

    A message has at most `max_message_bytes`, 16 MiB as on a server by default. A larger call goes in chunks, a larger
    batch in several messages. If a server takes less, it refuses a message and names its limit; the client keeps that
    limit from then on and sends the call again in smaller pieces. Raise `max_message_bytes` if the server takes more.

    With `shared_memory=True` and a server on the same host at a `unix:` target, large tensors
    go through shared memory, where the returned arrays stay; a forked child gets a copy of them, taken at the fork.
    Tensors that do not fit in /dev/shm are sent over the connection. If the server takes no shared memory from this
    client, its calls raise SharedMemoryUnavailableError.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        max_message_bytes: int = DEFAULT_MESSAGE_BYTES,
        compression: Compression = None,
        shape_only: bool = True,
        shared_memory: bool = False,
        channel_options: Iterable[ChannelOption] = (),
    ) -> None:
        self.target = checked_target(target)
        self.timeout_s = None if timeout_s is None else checked_seconds("timeout_s", timeout_s)
        self._retry_policy = RetryPolicy(retries, connect_timeout_s)
        self._sent_values = SentValues(shape_only=shape_only)
        self._limit = MessageLimit(max_message_bytes)
        self._open = partial(
            grpc.aio.insecure_channel,
            target,
            _channel.channel_options(self._limit.size_bytes, channel_options),
            compression=_channel.grpc_compression(compression),
        )
        self._channel: grpc.aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = asyncio.Event()
        self._regions = RegionPool() if shared_memory else None
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}

    async def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Array:
        """Returns the gradient of any operator of the server, by its wire names.

        A tuple of sizes as an input sends the shape alone; its dtype is that of the first array. Where a server needs
        the values, it raises InputValuesRequiredError.
        """
        arguments = (name, inputs, attributes, self._sent_values, self._limit)
        if _calls.copies_much(inputs):
            call = await asyncio.to_thread(ExecuteCall, *arguments)
        else:
            call = ExecuteCall(*arguments)
        return await self._run(call, timeout_s)

    def batch(self) -> "AsyncBatch":
        """Returns an empty batch: calls that share messages, which makes many small gradients cheap."""
        return AsyncBatch(self, self._sent_values, self._limit)

    async def list_operators(self, *, timeout_s: float | None = None) -> list[OperatorDescription]:
        """Returns what the server can compute, and what each operator takes."""
        return await self._run(_calls.list_operators_call(), timeout_s)

    async def server_status(self, *, timeout_s: float | None = None) -> GetServerStatusResponse:
        """Returns what the server runs on and how busy it is."""
        return await self._run(_calls.server_status_call(), timeout_s)

    async def close(self) -> None:
        """Closes the connection; calls in flight, or waiting for their next attempt, end with CallCancelledError."""
        self._closed.set()
        try:
            if self._channel is not None:
                await self._bound().close()
        finally:
            # After the calls: they would be told that their memory cannot be found.
            if self._regions is not None:
                self._regions.close()

    def _bound(self) -> grpc.aio.Channel:
        """Returns the channel, which belongs to the event loop of the first call."""
        loop = asyncio.get_running_loop()
        if self._channel is None:
            self._channel, self._loop = self._open(), loop
        elif loop is not self._loop:
            raise _calls.wrong_loop_error(self.target)
        return self._channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Call[_Result], timeout_s: float | None) -> _Result:
        return await self._repeat(call, self._start(timeout_s))

    async def _run_batch(self, call: BatchCall, timeout_s: float | None) -> list[Any]:
        """Sends the messages of a batch one after the other, each with its own retries, within one time limit."""
        attempts = self._start(timeout_s)
        while call.next_message():
            try:
                await self._repeat(call, attempts)
            except AclgradError as error:
                call.fail(error)
            attempts = attempts.of_another_message()
        return call.results()

    def _start(self, timeout_s: float | None) -> Attempts:
        return self._retry_policy.start(_calls.time_limit(self.timeout_s if timeout_s is None else timeout_s))

    async def _repeat(self, call: Call[_Result], attempts: Attempts) -> _Result:
        """Makes the call, within the time that is left, until it succeeds or its error is final."""
        while True:
            try:
                return await self._send(call, attempts.time_left_s())
            except AclgradError as error:
                # It may copy arrays whose values were withheld.
                amended = await asyncio.to_thread(call.amend, error)
                delay_s = 0.0 if amended else attempts.delay_after_s(error)
                if delay_s is None:
                    attempts.explain(error)
                    raise
            call = amended or call
            await self._pause(delay_s)

    async def _send(self, call: Call[_Result], limit_s: float | None) -> _Result:
        """Makes one attempt."""
        if self._closed.is_set():
            raise _calls.closed_error(self.target)
        channel = self._bound()
        try:
            if isinstance(call, ExecuteCall) and self._regions is not None:
                return await self._send_shared(channel, call, self._regions, limit_s)
            size_bytes = call.size_bytes
            if isinstance(call, ExecuteCall | BatchCall) and (chunked := call.in_chunks(size_bytes)):
                return call.take(await self._send_chunks(channel, *chunked, limit_s))
            if size_bytes > LARGE_BYTES:
                reply = await self._send_large(channel, call.method, lambda: call.request, limit_s)
                return await asyncio.to_thread(call.read, reply)
            return call.read(await self._send_message(channel, call.method, call.request, limit_s))
        except grpc.aio.AioRpcError as failure:
            raise _calls.error_of(failure, self.target, is_closed=self._closed.is_set()) from None
        except (asyncio.CancelledError, grpc.aio.UsageError):
            # What grpc.aio does to the calls of a channel that is closed; but a task may be cancelled as well.
            task = asyncio.current_task()
            if self._closed.is_set() and not (task and task.cancelling()):
                raise _calls.closed_error(self.target) from None
            raise

    async def _send_large(
        self, channel: grpc.aio.Channel, name: str, encode: Callable[[], bytes], limit_s: float | None
    ) -> bytes:
        """Sends a message that is too large to be encoded on the event loop."""
        request = await asyncio.to_thread(encode)
        try:
            # The core would wait for a full connection to take the rest of the message, even after its deadline.
            async with asyncio.timeout(None if limit_s is None else limit_s + _CLOCK_PRECISION_S):
                return await self._send_message(channel, name, request, limit_s)
        except TimeoutError:
            _keep_poller()
            raise _calls.deadline_error(self.target) from None
        except asyncio.CancelledError:
            _keep_poller()
            raise

    async def _send_message(self, channel: grpc.aio.Channel, name: str, request: bytes, limit_s: float | None) -> bytes:
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = channel.unary_unary(_calls.SERVICE + name)
        return await method(request, timeout=limit_s)

    async def _send_chunks(
        self, channel: grpc.aio.Channel, call: OperatorCall, chunk_bytes: int, limit_s: float | None
    ) -> Array:
        messages = chunked_messages(call, chunk_bytes)
        method: Any = channel.stream_stream(_calls.SERVICE + "ExecuteOperatorChunked")
        stream = method(timeout=limit_s)
        answer = ChunkedAnswer()
        writer = asyncio.create_task(_write(stream, messages))
        # In time: a write that fails after the status has come would put grpc.aio's own in its place.
        stream.add_done_callback(lambda _: writer.cancel())
        try:
            async for message in stream:
                answer.take(message)
        except grpc.aio.AioRpcError as failure:
            left_s = stream.time_remaining()
            failure = await _own_failure(stream, failure)
            if _calls.hides_a_status(failure) and left_s is not None and left_s < _CLOCK_PRECISION_S:
                raise _calls.deadline_error(self.target) from None
            raise failure
        finally:
            # Does nothing to a call that has ended; any other is not to go on without its reader.
            stream.cancel()
            writer.cancel()
            if not writer.done() or writer.cancelled():
                # Amid a message.
                _keep_poller()
        return answer.gradient()

    async def _send_shared(
        self, channel: grpc.aio.Channel, call: ExecuteCall, regions: RegionPool, limit_s: float | None
    ) -> Array:
        with SharedCall(regions, call.planned) as shared:
            is_large = call.size_bytes > LARGE_BYTES
            planned = await asyncio.to_thread(shared.lend) if is_large else shared.lend()
            if chunked := call.in_chunks(planned.size_bytes):
                # There was no room for all of it.
                return await self._send_chunks(channel, *chunked, limit_s)
            encode = partial(encode_request, planned.call)
            if planned.size_bytes > LARGE_BYTES:
                return shared.read(await self._send_large(channel, call.method, encode, limit_s))
            return shared.read(await self._send_message(channel, call.method, encode(), limit_s))

    async def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; a client that is closed meanwhile has none."""
        try:
            async with asyncio.timeout(delay_s):
                await self._closed.wait()
        except TimeoutError:
            return
        raise _calls.closed_error(self.target)


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
        if not _calls.hides_a_status(failure):
            break
        await asyncio.sleep(_STATUS_PERIOD_S)
        headers, trailers = await stream.initial_metadata(), await stream.trailing_metadata()
        failure = grpc.aio.AioRpcError(await stream.code(), headers, trailers, await stream.details())
    return failure


class AsyncBatch(CollectedCalls):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = await batch.run()
    """

    def __init__(self, client: AsyncClient, sent_values: SentValues, limit: MessageLimit) -> None:
        super().__init__(sent_values, limit)
        self._client = client

    async def run(self, *, return_errors: bool = False, timeout_s: float | None = None) -> list[Any]:
        """Makes the calls and returns their gradients, in the order in which they were added.

        Where a call fails, raises its error, the first if there are several; with `return_errors` it stands in the
        list instead, and the others' gradients are not lost. Raises an AclgradError of its own where no call was made.

        Calls that exceed a message together go in several, one after the other; a call that alone exceeds one goes in
        chunks. `timeout_s` bounds all of them together.
        """
        return await self._client._run_batch(self.to_send(return_errors), timeout_s)  # noqa: SLF001 - the two are one
