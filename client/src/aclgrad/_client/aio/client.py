"""The client for asyncio; its names are those of the synchronous client."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import grpc.aio

from aclgrad._client.aio.transport import TaskTransport
from aclgrad._client.base_client import BaseClient
from aclgrad._client.calls.arguments import Inputs
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.call import Call, copies_much
from aclgrad._client.calls.destination import Outputs
from aclgrad._client.calls.exchange import operators_query, status_query
from aclgrad._client.programs.batch import BaseBatch, BatchRun
from aclgrad._client.programs.program import BaseProgram, Wanted
from aclgrad._client.programs.values import NO_VALUES, Values
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad.errors import DeadlinePassedError
from aclgrad.operators.attributes import AttributeLike

if TYPE_CHECKING:
    from aclgrad.descriptions.operators import OperatorDescription
    from aclgrad.descriptions.status import ServerStatus


class AsyncClient(BaseClient[Coroutine[Any, Any, Array]]):
    """Runs operators on the server at `target` (`host:port` or `unix:path`), in the event loop of its first call.

    async with aclgrad.AsyncClient("127.0.0.1:50051") as client:
        gradient = await client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    """

    _channel_kind = grpc.aio.Channel
    _library = grpc.aio

    def _new_transport(self) -> TaskTransport:
        return TaskTransport(self.target, self._channels, self._channel_to, self._metadata, self._open_first_channel)

    async def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Array:
        attempts = self._start(Call.method, timeout_s)
        make = partial(Call, name, inputs, attributes, self._requirements, out, outputs)
        if not copies_much(inputs):
            return await self._run(make(), attempts, name)
        try:
            call = await self._beside(make, attempts)
        except DeadlinePassedError as error:
            attempts.explain(error)
            self._end(attempts, error)
            raise
        attempts.connect_from_now()
        return await self._run(call, attempts, name)

    def batch(self) -> AsyncBatch:
        return AsyncBatch(self._requirements, self)

    def program(self, product: str = "") -> AsyncProgram:
        return AsyncProgram(self._requirements, self, product)

    async def list_operators(self, *, timeout_s: Timeout = DEFAULT) -> list[OperatorDescription]:
        return await self._ask(operators_query(), timeout_s)

    async def server_status(self, *, timeout_s: Timeout = DEFAULT) -> ServerStatus:
        return await self._ask(status_query(), timeout_s)

    async def wait_until_ready(self, timeout_s: Timeout = DEFAULT) -> None:
        await self._wait_until_ready(timeout_s)

    async def close(self) -> None:
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:  # type checkers say so before the program runs

        def __enter__(self):
            raise TypeError("an AsyncClient is entered by `async with`; write that, or make an aclgrad.Client")

        __exit__ = __enter__


class AsyncBatch(BaseBatch[AsyncClient]):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = await batch.run()
    """

    async def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> list[Any]:
        calls = self.to_send(return_errors)
        return await self._client._run_program(calls, BatchRun.outcomes, timeout_s)  # noqa: SLF001 - the two are one


class AsyncProgram(BaseProgram[AsyncClient]):
    """Steps that use each other's outputs; a method of an operator adds a step and returns the handle of its output.

    program = client.program()
    grad = program.gelu_backward(grad_output, x)
    grads = program.layer_norm_backward(grad, y, mean, rstd, normalized_shape=(768,))
    [grads] = await program.run(grads)
    """

    async def run(
        self,
        *wanted: Wanted,
        values: Values = NO_VALUES,
        return_errors: bool = False,
        timeout_s: Timeout = DEFAULT,
    ) -> list[Any]:
        steps = self.to_send(wanted, values, return_errors)
        return await self._client._run_program(steps, partial(self.values_of, wanted), timeout_s)  # noqa: SLF001 - the two are one
