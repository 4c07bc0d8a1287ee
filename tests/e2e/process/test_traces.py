"""Traces of running servers, as a collector gets them; and servers whose collector is in trouble."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_service
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import aclgrad
from tests.e2e.fault_plans import once
from tools.calling import wait_until
from tools.raw_calls import BAD, SMALL, execute, open_channel
from tools.serving import Server, run_to_end

pytestmark = once

GRAD = np.ones((1, 1, 1), np.float32)
LARGE = np.ones((1, 64, 64, 64), np.float32)


class Collector(trace_service.TraceServiceServicer):
    """Keeps the spans that it gets; `treat` may wait."""

    def __init__(self, treat: Callable[[], object] = lambda: None) -> None:
        self.treat = treat
        self.spans: list[Span] = []
        self.has_begun = False
        self.variables: dict[str, str] = {}

    def Export(self, request: pb.ExportTraceServiceRequest, context: Any) -> pb.ExportTraceServiceResponse:  # noqa: N802
        self.has_begun = True
        self.treat()
        for each in request.resource_spans:
            self.spans += [span for scope in each.scope_spans for span in scope.spans]
        return pb.ExportTraceServiceResponse()

    def calls(self) -> list[Span]:
        """Returns the spans of calls but for how clients look for workers."""
        found = [each for each in self.spans if "Execute" in each.name]
        return sorted(found, key=lambda each: each.start_time_unix_nano)

    def stages(self, call: Span) -> list[str]:
        below = [each for each in self.spans if each.parent_span_id == call.span_id]
        below.sort(key=lambda each: (each.start_time_unix_nano, each.end_time_unix_nano))
        return [each.name for each in below]


@contextmanager
def listening(collector: Collector) -> Iterator[Collector]:
    server = grpc.server(ThreadPoolExecutor(8))
    trace_service.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    collector.variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    yield collector
    server.stop(0).wait()


def test_sampled_calls_of_clients_and_failed_calls_have_spans() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    variables = {"OTEL_TRACES_SAMPLER": "parentbased_always_off", "OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    with listening(Collector()) as collector, Server("--tracing", **collector.variables | variables) as server:
        with aclgrad.Client(server.address, tracing=provider, max_message_bytes=2**18) as client:
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
            client.adaptive_avg_pool2d_backward(LARGE, LARGE.shape)
        with open_channel(server) as channel:
            execute(channel, SMALL["tanh_backward"])
            with pytest.raises(grpc.RpcError):
                execute(channel, BAD)
        # What waits is sent before it ends.
        server.ask_to_stop()
        assert server.exit_code() == 0
        unary, chunked, failed = collector.calls()
        assert f"trace {failed.trace_id.hex()}: INVALID_ARGUMENT" in server.log
    ours = {each.context.span_id: each for each in exporter.get_finished_spans()}
    for call in (unary, chunked):
        attempt = ours[int.from_bytes(call.parent_span_id)]
        assert (call.name, int.from_bytes(call.trace_id)) == (attempt.name, attempt.context.trace_id)
        # Neither clock is ahead: both are of this machine.
        assert attempt.start_time <= call.start_time_unix_nano <= call.end_time_unix_nano
    assert collector.stages(unary) == collector.stages(chunked) == ["receive", "plan", "wait", "run", "reply"]


def test_a_collector_that_hangs_holds_neither_calls_nor_the_stop() -> None:
    may_answer = threading.Event()
    with listening(Collector(lambda: may_answer.wait(60))) as collector:
        variables = collector.variables | {"OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
        with Server("--tracing", **variables) as server:
            with open_channel(server) as channel:
                execute(channel, SMALL["tanh_backward"])
                wait_until(lambda: collector.has_begun)
                for _ in range(20):
                    execute(channel, SMALL["tanh_backward"])
            begin = time.monotonic()
            server.ask_to_stop()
            assert server.exit_code() == 0
            # The collector has 1.5 s; a server that waited for it would take minutes.
            assert time.monotonic() - begin < 20
            assert "the collector took too long" in server.log
        may_answer.set()


def test_a_variable_that_opentelemetry_refuses_ends_the_start() -> None:
    wrong = {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many", "ACLGRAD_LISTEN": "127.0.0.1:0"}
    ended = run_to_end("--backend", "host", "--tracing", **wrong)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "aclgrad-server: --tracing: OpenTelemetry refuses a variable OTEL_*: OTEL_SPAN_ATTRIBUTE_C" in ended.stderr
