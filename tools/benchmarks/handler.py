"""Measures the CPU time of the server's own Python for a small call; `--quick` for less.

It is that of the handler with a context in place of gRPC's: without the transport, with the operator's kernel.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final

from aclgrad.products import Product
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.opening import open_device
from aclgrad_server.devices.planning import Planner
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.services.load_report import LoadReport
from aclgrad_server.services.operators import SERVICE, OperatorService
from aclgrad_server.settings import Settings
from tools.benchmarks import loads
from tools.benchmarks.sizes import SIZES

CALLS: Final = 1000
ROUNDS: Final = 40


class Context:
    """What gRPC gives to the handler of a call with one message."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def time_remaining(self) -> float | None:
        return None

    def peer(self) -> str:
        return "ipv4:192.0.2.1:50000"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("user-agent", "grpc"),)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.end = callback

    async def read(self) -> bytes:
        return self._message

    def set_trailing_metadata(self, metadata: object) -> None: ...


async def served() -> Any:
    """Returns the coroutine function that gRPC calls for ExecuteOperator."""
    settings = Settings(backend="host")
    view = ServerView(settings)
    library, device = await open_device(settings, Completions(), lambda device, error: None)
    admission = Admission(settings.streams, settings.max_waiting_calls, device.pool_limit_bytes)
    planner = Planner(Product.ATLAS_A2, settings.max_tensor_bytes)
    runner = Runner(device, admission, planner, settings.max_message_bytes)
    handlers = Handlers(view.calls, admission, load_report=LoadReport(view), server_name="192.0.2.2:50051")
    service = OperatorService(view, Product.ATLAS_A2, library, runner).handler(handlers)
    called: Any = SimpleNamespace(method=f"/{SERVICE}/ExecuteOperator")
    handler: Any = service.service(called)
    return handler.stream_unary


async def server_us(rounds: int) -> float:
    """Returns the least of the rounds: the code is the same in each, and whatever disturbs it takes time."""
    serve, request = await served(), loads.unary_request(SIZES["16 KB"])

    async def call() -> None:
        await serve(None, context := Context(request))
        context.end(context)

    return min([await cpu_us(call, CALLS) for _ in range(rounds)])


async def cpu_us(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Returns microseconds of this process for a call."""
    start = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - start) / calls * 1e6


def main() -> None:
    least_us = asyncio.run(server_us(3 if "--quick" in sys.argv else ROUNDS))
    print(f"the server's Python for a call of 16 KB: {least_us:.1f} us of CPU time")


if __name__ == "__main__":
    main()
