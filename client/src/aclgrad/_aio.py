"""The client for asyncio; its names are those of the synchronous client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc.aio

from aclgrad import _calls, _channel
from aclgrad._batch import CollectedCalls, settled
from aclgrad._calls import Array, Call, ExecuteCall, Input, SentValues
from aclgrad._channel import (
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_TARGET,
    DEFAULT_TIMEOUT_S,
    ChannelOption,
    Compression,
)
from aclgrad._chunked import CHUNKED_ABOVE_BYTES, ChunkedAnswer, chunked_messages
from aclgrad._operator_methods import OperatorMethods
from aclgrad._retry import DEFAULT_RETRIES, RetryPolicy
from aclgrad._shared_memory import RegionPool, SharedCall
from aclgrad.errors import AclgradError
from aclgrad.v1.operator_service_pb2 import GetServerStatusResponse, OperatorDescription
from aclgrad.wire.messages import AttributeValue, encode_request

_Result = TypeVar("_Result")


class AsyncClient(OperatorMethods[Awaitable[Array]]):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`), within one event loop.

        async with aclgrad.AsyncClient("127.0.0.1:50051") as client:
            gradient = await client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))

    A call that takes longer than `timeout_s` seconds, with all its attempts, raises DeadlinePassedError; None waits for
    ever. A call that failed because a connection was lost, or that the server asks to make again later, is made again
    up to `retries` times, after delays that grow; the error that is raised is that of the last attempt. Messages of
    more than `max_message_bytes` raise MessageTooLargeError; `compression="gzip"` compresses requests. Whatever a call
    raises is an `aclgrad.AclgradError`.

    Of an array that an operator needs only the shape of, such as `input` of most, the shape alone is sent. A server
    whose device may read the values asks for them; the array is then sent, and in later calls of that operator at
    once. `shape_only=False` sends every array. `channel_options` are options of gRPC that go before the client's own.

    Large calls go in chunks by themselves. With `shared_memory=True`, for a server on the same host at a `unix:`
    target, large tensors go through shared memory; the arrays that are returned then live there. What /dev/shm has no
    room for goes as ever; a server that takes no shared memory from this client is a SharedMemoryUnavailableError.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        compression: Compression = None,
        shape_only: bool = True,
        shared_memory: bool = False,
        channel_options: Iterable[ChannelOption] = (),
    ) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self._retry_policy = RetryPolicy(retries)
        self._sent_values = SentValues(shape_only=shape_only)
        self._channel = grpc.aio.insecure_channel(
            target,
            _channel.channel_options(max_message_bytes, channel_options),
            compression=_channel.grpc_compression(compression),
        )
        self._closed = asyncio.Event()
        self._regions = RegionPool() if shared_memory else None
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}

    async def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Array:
        """Returns the gradient of any operator of the server, by its wire names.

        A tuple of sizes as an input sends the shape alone; its dtype is that of the first array. Where a server needs
        the values, it raises InputValuesRequiredError.
        """
        return await self._run(ExecuteCall(name, inputs, attributes, self._sent_values), timeout_s)

    def batch(self) -> "AsyncBatch":
        """Returns an empty batch: calls that go in one message, which makes many small gradients cheap."""
        return AsyncBatch(self, self._sent_values)

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
            await self._channel.close()
        finally:
            # After the calls: they would be told that their memory cannot be found.
            if self._regions is not None:
                self._regions.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Call[_Result], timeout_s: float | None) -> _Result:
        return await self._repeat(self._send, call, timeout_s)

    async def _repeat(
        self,
        send: Callable[[Call[_Result], float | None], Awaitable[_Result]],
        call: Call[_Result],
        timeout_s: float | None,
    ) -> _Result:
        """Makes the call by `send`, which is given the time that is left, until it succeeds or its error is final."""
        attempts = self._retry_policy.start(_calls.time_limit(self.timeout_s if timeout_s is None else timeout_s))
        while True:
            try:
                return await send(call, attempts.time_left_s())
            except AclgradError as error:
                amended = call.amend(error)
                delay_s = 0.0 if amended else attempts.delay_after_s(error)
                if delay_s is None:
                    raise
            call = amended or call
            await self._pause(delay_s)

    async def _send(self, call: Call[_Result], limit_s: float | None) -> _Result:
        """Makes one attempt."""
        if self._closed.is_set():
            raise _calls.closed_error(self.target)
        try:
            if isinstance(call, ExecuteCall) and self._regions is not None:
                return await self._send_shared(call, self._regions, limit_s)
            if isinstance(call, ExecuteCall) and call.planned.size_bytes > CHUNKED_ABOVE_BYTES:
                return await self._send_chunks(call, limit_s)
            return call.read(await self._send_message(call.method, call.request, limit_s))
        except grpc.aio.AioRpcError as failure:
            raise _calls.error_of(failure, self.target) from None
        except asyncio.CancelledError:
            # grpc.aio cancels the calls of a channel that is closed.
            if self._closed.is_set():
                raise _calls.closed_error(self.target) from None
            raise

    async def _send_message(self, name: str, request: bytes, limit_s: float | None) -> bytes:
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = self._channel.unary_unary(_calls.SERVICE + name)
        return await method(request, timeout=limit_s)

    async def _send_chunks(self, call: ExecuteCall, limit_s: float | None) -> Array:
        messages = chunked_messages(call.planned.call)
        method: Any = self._channel.stream_stream(_calls.SERVICE + "ExecuteOperatorChunked")
        stream = method(timeout=limit_s)
        answer = ChunkedAnswer()
        writer = None
        try:
            with suppress(*_CALL_ENDED):
                await stream.write(next(messages))
            # What is not welcome is told now. Later, a write that fails would hide the server's status (grpc.aio puts
            # an INTERNAL of its own in its place).
            await stream.initial_metadata()
            writer = asyncio.create_task(_write(stream, messages))
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
            if writer is not None:
                writer.cancel()
        return answer.gradient()

    async def _send_shared(self, call: ExecuteCall, regions: RegionPool, limit_s: float | None) -> Array:
        with SharedCall(regions, call.planned) as shared:
            planned = shared.lend()
            if planned.size_bytes > CHUNKED_ABOVE_BYTES:
                # There was no room for all of it.
                return await self._send_chunks(call, limit_s)
            return shared.read(await self._send_message(call.method, encode_request(planned.call), limit_s))

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


async def _write(stream: Any, messages: Iterator[bytes]) -> None:
    with suppress(*_CALL_ENDED):
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

    def __init__(self, client: AsyncClient, sent_values: SentValues) -> None:
        super().__init__(sent_values)
        self._client = client

    async def run(self, *, return_errors: bool = False, timeout_s: float | None = None) -> list[Any]:
        """Makes the calls and returns their gradients, in the order in which they were added.

        Where a call fails, raises its error, the first if there are several; with `return_errors` it stands in the
        list instead, and the others' gradients are not lost. Raises an AclgradError of its own where no call was made.
        The calls of one batch have to fit into one message.
        """
        if not len(self):
            return []
        call = self.to_send()
        try:
            outcomes = await self._client._run(call, timeout_s)  # noqa: SLF001 - the two are one
        except AclgradError:
            # What failed in passing failed to the end, or no attempt brought anything back.
            if call.outcomes is None:
                raise
            return settled(call.outcomes, return_errors)
        return settled(outcomes, return_errors)
