"""The client for asyncio; its names are those of the synchronous client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

import grpc.aio

from aclgrad import _calls, _channel
from aclgrad._calls import Array, Call, Input, SentValues
from aclgrad._channel import (
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_TARGET,
    DEFAULT_TIMEOUT_S,
    ChannelOption,
    Compression,
)
from aclgrad._operator_methods import AsyncOperatorMethods
from aclgrad._retry import DEFAULT_RETRIES, RetryPolicy
from aclgrad.errors import AclgradError
from aclgrad.v1.operator_service_pb2 import GetServerStatusResponse, OperatorDescription
from aclgrad.wire.messages import AttributeValue

_Result = TypeVar("_Result")


class AsyncClient(AsyncOperatorMethods):
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
        return await self._run(_calls.execute_call(name, inputs, attributes, self._sent_values), timeout_s)

    async def list_operators(self, *, timeout_s: float | None = None) -> list[OperatorDescription]:
        """Returns what the server can compute, and what each operator takes."""
        return await self._run(_calls.list_operators_call(), timeout_s)

    async def server_status(self, *, timeout_s: float | None = None) -> GetServerStatusResponse:
        """Returns what the server runs on and how busy it is."""
        return await self._run(_calls.server_status_call(), timeout_s)

    async def close(self) -> None:
        """Closes the connection; calls in flight, or waiting for their next attempt, end with CallCancelledError."""
        self._closed.set()
        await self._channel.close()

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
        method = self._methods.get(call.method)
        if method is None:
            method = self._methods[call.method] = self._channel.unary_unary(_calls.SERVICE + call.method)
        try:
            reply = await method(call.request, timeout=limit_s)
        except grpc.aio.AioRpcError as failure:
            raise _calls.error_of(failure, self.target) from None
        return call.read(reply)

    async def _pause(self, delay_s: float) -> None:
        """Waits for the next attempt; a client that is closed meanwhile has none."""
        try:
            async with asyncio.timeout(delay_s):
                await self._closed.wait()
        except TimeoutError:
            return
        raise _calls.closed_error(self.target)
