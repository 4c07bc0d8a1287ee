"""The client for synchronous code."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import grpc

from aclgrad._client.base_client import BaseClient
from aclgrad._client.calls.arguments import Inputs
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.call import Call
from aclgrad._client.calls.destination import Outputs
from aclgrad._client.calls.exchange import operators_query, status_query
from aclgrad._client.programs.batch import BaseBatch, BatchRun
from aclgrad._client.programs.program import BaseProgram, Wanted
from aclgrad._client.programs.values import NO_VALUES, Values
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad._client.sync.bridge_functions import BridgeFunctions
from aclgrad._client.sync.transport import ThreadTransport, run
from aclgrad.operators.attributes import AttributeLike

if TYPE_CHECKING:
    from aclgrad.descriptions.operators import OperatorDescription
    from aclgrad.descriptions.status import ServerStatus


class Client(BaseClient[Array]):
    """Runs operators on the server at `target` (`host:port` or `unix:path`); safe to share between threads.

    with aclgrad.Client("127.0.0.1:50051") as client:
        gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    """

    _channel_kind = grpc.Channel
    _library = grpc

    def _new_transport(self) -> ThreadTransport:
        self.bridge_functions = BridgeFunctions()
        """Functions that a bridge to a framework made for this client."""
        self._open_first_channel()
        return ThreadTransport(self._channels, self._channel_to, self._metadata)

    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Array:
        call = Call(name, inputs, attributes, self._requirements, out, outputs)
        return run(self._run, call, self._start(call.method, timeout_s), name)

    def batch(self) -> Batch:
        return Batch(self._requirements, self)

    def program(self, product: str = "") -> Program:
        return Program(self._requirements, self, product)

    def list_operators(self, *, timeout_s: Timeout = DEFAULT) -> list[OperatorDescription]:
        return run(self._ask, operators_query(), timeout_s)

    def server_status(self, *, timeout_s: Timeout = DEFAULT) -> ServerStatus:
        status: ServerStatus = run(self._ask, status_query(), timeout_s)
        return status

    def wait_until_ready(self, timeout_s: Timeout = DEFAULT) -> None:
        run(self._wait_until_ready, timeout_s)

    def close(self) -> None:
        self.bridge_functions.clear()
        run(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers say so before the program runs

        def __aenter__(self):
            raise TypeError("a Client is entered by `with`; write that, or make an aclgrad.AsyncClient")

        __aexit__ = __aenter__


class Batch(BaseBatch[Client]):
    """Calls that are sent together; a method of an operator adds its call and returns its position.

    batch = client.batch()
    for grad_output in grads:
        batch.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
    gradients = batch.run()
    """

    def run(self, *, return_errors: bool = False, timeout_s: Timeout = DEFAULT) -> list[Any]:
        calls = self.to_send(return_errors)
        return run(self._client._run_program, calls, BatchRun.outcomes, timeout_s)  # noqa: SLF001 - the two are one


class Program(BaseProgram[Client]):
    """Steps that use each other's outputs; a method of an operator adds a step and returns the handle of its output.

    program = client.program()
    grad = program.gelu_backward(grad_output, x)
    grads = program.layer_norm_backward(grad, y, mean, rstd, normalized_shape=(768,))
    [grads] = program.run(grads)
    """

    def run(
        self,
        *wanted: Wanted,
        values: Values = NO_VALUES,
        return_errors: bool = False,
        timeout_s: Timeout = DEFAULT,
    ) -> list[Any]:
        steps = self.to_send(wanted, values, return_errors)
        return run(self._client._run_program, steps, partial(self.values_of, wanted), timeout_s)  # noqa: SLF001 - the two are one
