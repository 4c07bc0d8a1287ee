"""The CPU time of our own Python for a call: the server's handler, and the clients beside the generated stubs.

The handler has a context in place of gRPC's: no transport, but the operator's kernel. Clients take numpy and return it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import grpc.aio
import numpy as np

import aclgrad
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.opening import open_device
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.services.load_report import LoadReport
from aclgrad_server.services.operators import SERVICE, OperatorService
from aclgrad_server.settings import Settings
from tools.benchmarks import loads
from tools.benchmarks.measure import Figures, in_turns
from tools.benchmarks.report import Report
from tools.benchmarks.sizes import OPERATOR, SIZES, Size
from tools.serving import Server

HANDLED: Final = 1000
CALLS: Final = {"16 KB": 400, "1 MB": 60, "6.4 MB": 10}
LEAST: Final = {("16 KB", "Client"): 0.77}
"""The calls/s of one caller, relative to the stub's, that are promised."""


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
    planner = Planner(Product.ATLAS_A2, Limits(settings.max_tensor_bytes))
    programs, memory = ProgramPlanner(planner), SharedMemory(False, ())
    call_bytes = device.pool_limit_bytes // 2
    runner = Runner(device, admission, planner, programs, memory, settings.max_message_bytes, call_bytes)
    handlers = Handlers(view.calls, admission, load_report=LoadReport(view), server_name="192.0.2.2:50051")
    service = OperatorService(view, TurnedOff(Product.ATLAS_A2), library, runner).handler(handlers)
    called: Any = SimpleNamespace(method=f"/{SERVICE}/ExecuteOperator")
    handler: Any = service.service(called)
    return handler.stream_unary


@contextmanager
def clients(address: str, size: Size, runner: asyncio.Runner) -> Iterator[dict[str, Callable[[], Awaitable[object]]]]:
    """Yields the ways to make one call."""
    inputs = {"grad_output": loads.gradient(size), "self": size.shape}
    with ExitStack() as stack:
        client = stack.enter_context(aclgrad.Client(address, timeout_s=None))
        stub = OperatorServiceStub(stack.enter_context(loads.channel_to(address)))
        aio, channel = runner.run(_made(address))
        stack.callback(lambda: runner.run(aio.close()))
        stack.callback(lambda: runner.run(channel.close()))
        aio_stub = OperatorServiceStub(channel)

        async def call() -> None:
            client.execute(OPERATOR, inputs)

        async def call_stub() -> None:
            _array_of(stub.ExecuteOperator(_request(size)))

        async def call_aio() -> None:
            await aio.execute(OPERATOR, inputs)

        async def call_aio_stub() -> None:
            _array_of(await aio_stub.ExecuteOperator(_request(size)))

        yield {"Client": call, "stub": call_stub, "AsyncClient": call_aio, "aio stub": call_aio_stub}


async def _made(address: str) -> tuple[aclgrad.AsyncClient, grpc.aio.Channel]:
    client = aclgrad.AsyncClient(address, timeout_s=None)
    return client, grpc.aio.insecure_channel(address, aclgrad.channel_options(loads.ceilings.LIMIT))


def _request(size: Size) -> pb.ExecuteOperatorRequest:
    array, request = loads.gradient(size), pb.ExecuteOperatorRequest(operator=OPERATOR)
    request.inputs.add(name="grad_output", data_type="DATA_TYPE_FLOAT32", shape=array.shape, data=array.tobytes())
    request.inputs.add(name="self", data_type="DATA_TYPE_FLOAT32", shape=size.shape)
    return request


def _array_of(response: pb.ExecuteOperatorResponse) -> Any:
    (output,) = response.outputs
    return np.frombuffer(output.data, np.float32).reshape(output.shape).copy()


def timed(runner: asyncio.Runner, call: Callable[[], Awaitable[object]], calls: int) -> Figures:
    """Returns microseconds for a call, and those of this process on the CPU."""

    async def several() -> None:
        for _ in range(calls):
            await call()

    start, cpu_start = time.perf_counter(), time.process_time()
    runner.run(several())
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    return {"us": seconds / calls * 1e6, "cpu_us": cpu_s / calls * 1e6}


def main(quick: bool, arguments: list[str]) -> None:
    report = Report("calls", __doc__)
    with asyncio.Runner() as runner:
        serve, request = runner.run(served()), loads.unary_request(SIZES["16 KB"])

        async def handle() -> None:
            await serve(None, context := Context(request))
            context.end(context)

        found = in_turns({"handler": partial(timed, runner, handle, HANDLED)}, 3 if quick else 40)
        report.table("The server's handler", "size", "CPU us")
        report.row("16 KB", f"{found['handler'].least('cpu_us'):.1f}")
        report.table("Clients", "size", "client", "CPU us", "CPU, to its stub", "calls/s, to its stub")
        with Server() as server:
            for name, calls in CALLS.items():
                with clients(server.address, SIZES[name], runner) as ways:
                    rows = {way: partial(timed, runner, call, calls) for way, call in ways.items()}
                    measured = in_turns(rows, 3 if quick else 15)
                for way, stub in (("Client", "stub"), ("AsyncClient", "aio stub")):
                    least = LEAST.get((name, way))
                    rate = f"{1 / measured[way].ratio(measured[stub], 'us'):.2f}" + (
                        f" (least {least})" if least else ""
                    )
                    cpu = (
                        f"{measured[way].median('cpu_us'):.0f}",
                        f"{measured[way].ratio(measured[stub], 'cpu_us'):.2f}",
                    )
                    report.row(name, way, *cpu, rate)
    report.write()
