"""Traces of running servers, as a collector gets them: every way to call, every failure, workers."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import aclgrad
from aclgrad.wire.messages import OperatorCall, encode_request
from tests.e2e.admin_pages import value
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import Host
from tools.authority import write_identities
from tools.calling import wait_until
from tools.collector import ERROR, Received, TraceService
from tools.raw_calls import BAD, SERVICE, SMALL, execute, open_channel
from tools.serving import Server, run_to_end

pytestmark = once

GRAD = np.ones((1, 1, 1), np.float32)
LARGE = np.ones((1, 64, 64, 64), np.float32)
METHODS = ("ExecuteOperator", "ExecuteOperatorChunked", "BatchExecuteOperators")
STAGES = ["receive", "plan", "wait", "run", "reply"]
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
LOADED = """
import sys
{program}
print(*sorted(name for name in sys.modules if name.partition(".")[0] in ("grpc", "opentelemetry")))
"""


@pytest.fixture
def collector() -> Iterator[TraceService]:
    with TraceService() as collector:
        yield collector


def traced(collector: TraceService, *flags: str, **variables: str) -> Server:
    return Server("--tracing", *flags, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, **SOON | variables)


def stages_of(collector: TraceService, call: Received) -> list[str]:
    below = [each.span for each in collector.spans if each.span.parent_span_id == call.span.span_id]
    return [each.name for each in sorted(below, key=lambda each: (each.start_time_unix_nano, each.end_time_unix_nano))]


def test_every_way_to_call_goes_on_with_the_trace_of_the_client(collector: TraceService, tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    unix = f"unix:{tmp_path}/socket"
    with (
        Server(
            *("--tracing", "--shared-memory"),
            listen=("127.0.0.1:0", unix),
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
            # Those are not read, though OpenTelemetry itself would refuse to be imported.
            OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT="many",
            OTEL_BSP_EXPORT_TIMEOUT="long",
            OTEL_EXPORTER_OTLP_TIMEOUT="",
            **SOON,
        ) as server,
        aclgrad.Client(server.address, tracing=provider, max_message_bytes=2**18) as client,
        aclgrad.Client(unix, tracing=provider, shared_memory=True) as neighbour,
        provider.get_tracer("test").start_as_current_span("training") as training,
    ):
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        client.adaptive_avg_pool2d_backward(LARGE, (1, 64, 64, 64))
        neighbour.adaptive_avg_pool2d_backward(LARGE, (1, 64, 64, 64))
        batch = client.batch()
        for _ in range(3):
            batch.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        batch.run()
    ours = {each.context.span_id: each for each in exporter.get_finished_spans()}
    # But for how clients look for workers, which is nobody's call.
    made = [each for name in METHODS for each in collector.named(name)]
    calls = sorted(made, key=lambda each: each.span.start_time_unix_nano)
    assert len(calls) == 4
    for call in calls:
        attempt = ours[int.from_bytes(call.span.parent_span_id)]
        assert call.span.name == attempt.name == call.attributes["rpc.method"]
        assert call.attributes["aclgrad.request_id"] == attempt.attributes["aclgrad.request_id"]
        assert int.from_bytes(call.span.trace_id) == training.get_span_context().trace_id
        # Neither clock is ahead: both are of this machine.
        assert attempt.start_time <= call.span.start_time_unix_nano <= call.span.end_time_unix_nano
        assert stages_of(collector, call)[:1] + stages_of(collector, call)[-1:] == ["receive", "reply"]
    unary, chunked, shared, together = calls
    assert [each.span.name.rpartition("/")[2] for each in calls] == [
        *("ExecuteOperator", "ExecuteOperatorChunked", "ExecuteOperator", "BatchExecuteOperators")
    ]
    assert stages_of(collector, unary) == STAGES
    assert stages_of(collector, shared)[-2:] == ["run", "reply"]
    assert stages_of(collector, chunked) == [
        *("receive", "plan", "receive", "plan", "wait", "run", "receive", "plan", "wait", "run", "reply")
    ]
    assert together.attributes["aclgrad.calls"] == 3
    assert unary.attributes["aclgrad.operator"] == "adaptive_avg_pool2d_backward"
    (resource,) = {tuple(sorted(each.resource.items())) for each in collector.spans}
    told = dict(resource)
    assert (told["service.name"], told["deployment.environment.name"]) == ("aclgrad-server", "test")
    assert told["process.pid"] == server.process_id


def test_every_failed_call_has_its_span_and_no_other(collector: TraceService, tmp_path: Path) -> None:
    identities = write_identities(tmp_path / "identities.toml", {"caller": {"token": "a-token"}})
    known = ("authorization", "Bearer a-token")
    never = {"OTEL_TRACES_SAMPLER": "always_off", "OTEL_SERVICE_NAME": "mine"}
    may_end = threading.Event()

    def silence() -> Iterator[bytes]:
        may_end.wait(60)
        yield b""

    with traced(collector, "--identities", identities, **never) as server, open_channel(server) as channel:

        def call(name: str, request: bytes, *metadata: tuple[str, str], method: str = "ExecuteOperator") -> None:
            keys = (*metadata, ("x-request-id", name))
            channel.unary_unary(SERVICE + method)(request, metadata=keys, timeout=60)

        def begin(name: str) -> grpc.Future:
            method = channel.stream_unary(SERVICE + "ExecuteOperator")
            return method.future(silence(), metadata=(known, ("x-request-id", name)), timeout=60)

        def active() -> float | None:
            return value(server.admin, "aclgrad_active_rpcs")

        call("fine", b"", known, method="ListOperators")
        unsampled = ("traceparent", f"00-{'a' * 32}-{'b' * 16}-00")
        call("also-fine", encode_request(SMALL["tanh_backward"]), known, unsampled)
        for name, request, *metadata in (
            ("malformed", b"?", known),
            ("bad-input", encode_request(BAD), known),
            ("unknown", encode_request(OperatorCall("none", (), {})), known),
            ("stranger", encode_request(BAD)),
            ("unsampled", b"?", known, unsampled),
        ):
            with pytest.raises(grpc.RpcError):
                call(name, request, *metadata)
        cancelled, drained = begin("cancelled"), begin("drained")
        wait_until(lambda: active() == 2)
        cancelled.cancel()
        wait_until(lambda: active() == 1)
        server.ask_to_stop()
        with pytest.raises(grpc.RpcError):
            drained.result()
        may_end.set()
        assert server.exit_code() == 0
    calls = {each.attributes["aclgrad.request_id"]: each for each in collector.spans if "rpc.method" in each.attributes}
    assert {name: each.attributes["error.type"] for name, each in calls.items()} == {
        "malformed": "MALFORMED_REQUEST",
        "bad-input": "INVALID_FIELD",
        "unknown": "UNKNOWN_OPERATOR",
        "stranger": "UNAUTHENTICATED",
        "unsampled": "MALFORMED_REQUEST",
        "cancelled": "CANCELLED",
        "drained": "SERVER_DRAINING",
    }
    assert calls["unsampled"].span.trace_id == bytes.fromhex("a" * 32)
    assert calls["drained"].span.status.code == ERROR
    assert {each.resource["service.name"] for each in collector.spans} == {"mine"}


def test_each_worker_sends_its_own(collector: TraceService) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint} | SOON
    with Host("--tracing", **variables) as host:
        for address in host.worker_addresses:
            with open_channel(host, address) as channel:
                execute(channel, SMALL["tanh_backward"])
        wait_until(lambda: len(collector.named("ExecuteOperator")) == 2)
        sent = "aclgrad_spans_total"
        wait_until(lambda: [value(host.admin, sent, worker=each, outcome="sent") for each in "01"] == [6, 6])
        workers = {each.resource["process.pid"]: each.resource["aclgrad.worker"] for each in collector.spans}
        assert workers == {host.worker(number).pid: number for number in (0, 1)}


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        ("from aclgrad_server import serving, server; from aclgrad_server.server_view import ServerView\n"
         "from aclgrad_server.settings import Settings; ServerView(Settings())", {"grpc"}),
        ("from aclgrad_server.supervisor import supervisor; from aclgrad_server.settings import Settings\n"
         "Settings(tracing=True)", set()),
        ("import aclgrad; aclgrad.Client('127.0.0.1:1'); aclgrad.AsyncClient()", {"grpc"}),
    ],
    ids=["server", "supervisor", "client"],
)  # fmt: skip
def test_without_tracing_nothing_of_opentelemetry_is_loaded(program: str, loaded: set[str]) -> None:
    found = subprocess.run([sys.executable, "-c", LOADED.format(program=program)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert {name.partition(".")[0] for name in found.stdout.split()} == loaded


def test_a_wrong_variable_ends_the_start() -> None:
    ended = run_to_end("--backend", "host", "--tracing", OTEL_TRACES_SAMPLER="sometimes", ACLGRAD_LISTEN="127.0.0.1:0")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "aclgrad-server: --tracing: OTEL_TRACES_SAMPLER is " in ended.stderr
    assert "sometimes" in ended.stderr
