"""A service over loopback whose calls are traced, and the spans that came of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.statistics import RUN, WAIT
from aclgrad_server.tracing.collector import Collector
from aclgrad_server.tracing.sampling import Sampling
from aclgrad_server.tracing.spans import SpanMaker
from aclgrad_server.tracing.tracer import Tracer
from tests.server.fakes import wait_until

TRACE, PARENT = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
SAMPLED, UNSAMPLED = (f"00-{TRACE:032x}-{PARENT:016x}-0{flag}" for flag in (1, 0))
UNARY = "aclgrad.v1.OperatorService/ExecuteOperator"


async def reverse(message: bytes, call: Call) -> bytes:
    call.operator = "softmax_backward"
    call.enter(WAIT)
    call.enter(RUN)
    return message[::-1]


@dataclass
class TracedService:
    """A service whose one method does what `behaviour` says, and what came of the spans of its calls."""

    sampling: Sampling
    call_timeout_s: float = 60.0
    behaviour: Callable[[bytes, Call], Awaitable[bytes]] = reverse
    channel: grpc.aio.Channel = field(init=False)

    def __post_init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._collector = Collector(self._exporter)
        self.tracer = Tracer(self._collector, self.sampling, SpanMaker(Resource({"service.name": "tested"}), "1.2"))
        self.calls = OpenCalls(self.call_timeout_s, 60, make_call=self.tracer.make_call)

    async def __aenter__(self) -> "TracedService":
        handlers = Handlers(self.calls, Admission(1, 1))
        method = handlers.unary("ExecuteOperator", lambda message, call: self.behaviour(message, call))
        generic = grpc.method_handlers_generic_handler("aclgrad.v1.OperatorService", {"ExecuteOperator": method})
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((generic,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self._server.stop(None)
        await self.tracer.stop()

    def begin(self, **metadata: str) -> Any:
        keys = tuple((key.replace("_", "-"), value) for key, value in metadata.items())
        return self.channel.unary_unary(f"/{UNARY}")(b"abc", metadata=keys, timeout=60)

    async def call(self, **metadata: str) -> grpc.StatusCode:
        return await self.begin(**metadata).code()

    async def spans(self) -> tuple[ReadableSpan, ...]:
        """Returns all spans, once every call has ended; no call may follow."""
        await wait_until(lambda: not self.calls.any())
        await self.tracer.stop()
        return self._exporter.get_finished_spans()

    async def call_spans(self) -> list[ReadableSpan]:
        return [each for each in await self.spans() if each.kind is SpanKind.SERVER]
