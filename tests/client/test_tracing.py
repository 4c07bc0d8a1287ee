"""Both clients with `tracing`: a span for each call and each of its attempts, and a trace that servers go on with."""

import asyncio
import sys
import threading
from collections.abc import Callable

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags, format_span_id, format_trace_id

import aclgrad
from aclgrad.testing import TestServer
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import INPUTS, ONES, REPLY, ScriptedService, abort_with

METHOD = "aclgrad.v1.OperatorService/ExecuteOperator"
LOST = abort_with(grpc.StatusCode.UNAVAILABLE, "connection reset")


class Traces:
    """A provider, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def calls(self) -> list[ReadableSpan]:
        return [each for each in self.spans if each.kind is SpanKind.INTERNAL]

    def attempts(self) -> list[ReadableSpan]:
        return sorted((each for each in self.spans if each.kind is SpanKind.CLIENT), key=lambda each: each.start_time)


@pytest.fixture
def traces() -> Traces:
    return Traces()


def note_parents(service: ScriptedService, *answers: Callable[[grpc.ServicerContext], bytes]) -> list[str]:
    """Has the service give these answers in turn, the last one again and again; returns the parents that it gets."""
    parents: list[str] = []

    def answer(context: grpc.ServicerContext) -> bytes:
        parents.extend(value for key, value in context.invocation_metadata() if key == "traceparent")
        return answers[min(len(parents), len(answers)) - 1](context)

    service.answer = answer
    return parents


def parent_header(context: SpanContext) -> str:
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"


async def test_each_attempt_is_a_span_below_the_call(
    connect: Connect, service: ScriptedService, traces: Traces
) -> None:
    parents = note_parents(service, LOST, LOST, lambda context: REPLY)
    client = connect(service.address, tracing=traces.provider)
    with traces.provider.get_tracer("test").start_as_current_span("step") as step, aclgrad.request_id("mine"):
        await maybe_await(client.execute("pool", INPUTS))
    (call,) = (each for each in traces.calls() if each.name != "step")
    assert (call.name, call.parent) == ("pool", step.get_span_context())
    assert call.attributes == {"aclgrad.request_id": "mine", "aclgrad.operator": "pool", "aclgrad.retries": 2}
    assert call.status.status_code is StatusCode.UNSET
    attempts = traces.attempts()
    assert [(each.name, each.parent) for each in attempts] == [(METHOD, call.context)] * 3
    assert parents == [parent_header(each.context) for each in attempts]
    told = [dict(each.attributes) for each in attempts]
    assert {(each["rpc.system.name"], each["rpc.method"], each["aclgrad.request_id"]) for each in told} == {
        ("grpc", METHOD, "mine")
    }
    assert [each["rpc.response.status_code"] for each in told] == ["UNAVAILABLE", "UNAVAILABLE", "OK"]
    assert [each.get("error.type") for each in told] == ["ConnectionLostError", "ConnectionLostError", None]
    assert [each.status.status_code for each in attempts] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    edges = [call.start_time, *(time for each in attempts for time in (each.start_time, each.end_time)), call.end_time]
    assert edges == sorted(edges)


async def test_calls_that_fail(connect: Connect, server: TestServer, traces: Traces) -> None:
    client = connect(server.target, tracing=traces.provider)
    with pytest.raises(aclgrad.UnknownOperatorError):
        await maybe_await(client.execute("none", {"a": ONES}))
    (call,), (attempt,) = traces.calls(), traces.attempts()
    for span in (call, attempt):
        assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "UNKNOWN_OPERATOR")
    assert attempt.attributes["rpc.response.status_code"] == "NOT_FOUND"
    assert "none" in call.status.description
    with pytest.raises(aclgrad.ServerUnreachableError):
        await maybe_await(connect("127.0.0.1:1", tracing=traces.provider, connect_timeout_s=0).server_status())
    call = traces.calls()[-1]
    assert (call.name, call.attributes["error.type"]) == ("GetServerStatus", "ServerUnreachableError")
    assert "aclgrad.operator" not in call.attributes


async def test_batches_and_chunks(connect: Connect, server: TestServer, traces: Traces) -> None:
    client = connect(server.target, tracing=traces.provider, max_message_bytes=100_000)
    large, small = np.ones((256, 256), np.float32), np.ones((75, 75), np.float32)
    await maybe_await(client.softmax_backward(large, large, 1))
    batch = client.batch()
    for number in range(3):
        batch.softmax_backward(small + np.float32(number), small - np.float32(number), 1)
    await maybe_await(batch.run())
    one, several = traces.calls()
    assert (one.name, several.name) == ("softmax_backward", "ExecuteProgram")
    names = [(each.name.rpartition("/")[2], each.parent) for each in traces.attempts()]
    # Two calls fit in a message.
    batch_name = "ExecuteProgram"
    assert names == [("ExecuteProgramChunked", one.context), *[(batch_name, several.context)] * 2]


async def test_a_call_that_is_cancelled(service: ScriptedService, traces: Traces) -> None:
    arrived, may_end = threading.Event(), threading.Event()

    def answer(context: grpc.ServicerContext) -> bytes:
        arrived.set()
        may_end.wait(60)
        return REPLY

    service.answer = answer
    async with aclgrad.AsyncClient(service.address, tracing=traces.provider) as client:
        task = asyncio.ensure_future(client.execute("pool", INPUTS))
        await asyncio.to_thread(arrived.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    may_end.set()
    assert [each.attributes["error.type"] for each in traces.spans] == ["CancelledError"] * 2
    assert [each.attributes["rpc.response.status_code"] for each in traces.attempts()] == ["CANCELLED"]


@pytest.mark.parametrize("tracing", [TracerProvider(sampler=ALWAYS_OFF), True], ids=["unsampled", "no SDK"])
async def test_a_trace_goes_on_unsampled_and_without_an_sdk_there_is_none(
    connect: Connect, service: ScriptedService, tracing: TracerProvider | bool
) -> None:
    parents = note_parents(service, lambda context: REPLY)
    await maybe_await(connect(service.address, tracing=tracing).execute("pool", INPUTS))
    assert [int(each[-2:], 16) & TraceFlags.SAMPLED for each in parents] == ([] if tracing is True else [0])
    assert len(service.requests) == 1


async def test_looks_at_servers_are_no_calls(connect: Connect, server: TestServer, traces: Traces) -> None:
    client = connect(server.target, tracing=traces.provider)
    await maybe_await(client.wait_until_ready())
    assert not traces.spans


async def test_what_makes_no_sense(connect: Connect, monkeypatch: pytest.MonkeyPatch, traces: Traces) -> None:
    for wrong in ("yes", None, 1, object()):
        with pytest.raises(aclgrad.InvalidSettingError, match="give True, False or a TracerProvider") as caught:
            connect("127.0.0.1:1", tracing=wrong)
        assert caught.value.field == "tracing"
    monkeypatch.delitem(sys.modules, "aclgrad.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(aclgrad.InvalidSettingError) as caught:
        connect("127.0.0.1:1", tracing=True)
    assert "OpenTelemetry, which is not installed; run: pip install 'aclgrad[otel]'" in str(caught.value)
