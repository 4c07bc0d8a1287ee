"""The client for asyncio; its names are those of the synchronous client."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

import grpc.aio

from aclgrad import _calls
from aclgrad._calls import Array, Call, Input
from aclgrad._channel import DEFAULT_MAX_MESSAGE_BYTES, DEFAULT_TARGET, DEFAULT_TIMEOUT_S, channel_options
from aclgrad._operator_methods import AsyncOperatorMethods
from aclgrad.v1.operator_service_pb2 import GetServerStatusResponse, OperatorDescription
from aclgrad.wire.messages import AttributeValue

_Result = TypeVar("_Result")


class AsyncClient(AsyncOperatorMethods):
    """Computes gradients on the server at `target` (`host:port` or `unix:path`), within one event loop.

        async with aclgrad.AsyncClient("127.0.0.1:50051") as client:
            gradient = await client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))

    A call that takes longer than `timeout_s` seconds raises DeadlinePassedError; None waits for ever. Messages of more
    than `max_message_bytes` raise MessageTooLargeError. Whatever a call raises is an `aclgrad.AclgradError`.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self._channel = grpc.aio.insecure_channel(target, channel_options(max_message_bytes))
        self._closed = False
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

        A tuple of sizes as an input sends the shape alone; its dtype is that of the first array.
        """
        return await self._run(_calls.execute_call(name, inputs, attributes), timeout_s)

    async def list_operators(self, *, timeout_s: float | None = None) -> list[OperatorDescription]:
        """Returns what the server can compute, and what each operator takes."""
        return await self._run(_calls.list_operators_call(), timeout_s)

    async def server_status(self, *, timeout_s: float | None = None) -> GetServerStatusResponse:
        """Returns what the server runs on and how busy it is."""
        return await self._run(_calls.server_status_call(), timeout_s)

    async def close(self) -> None:
        """Closes the connection; calls in flight end with CallCancelledError."""
        self._closed = True
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Call[_Result], timeout_s: float | None) -> _Result:
        if self._closed:
            raise _calls.closed_error(self.target)
        method = self._methods.get(call.method)
        if method is None:
            method = self._methods[call.method] = self._channel.unary_unary(_calls.SERVICE + call.method)
        try:
            reply = await method(
                call.request, timeout=_calls.time_limit(self.timeout_s if timeout_s is None else timeout_s)
            )
        except grpc.aio.AioRpcError as failure:
            raise _calls.error_of(failure, self.target) from None
        return call.read(reply)
