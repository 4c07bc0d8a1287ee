"""Traced calls: what their spans hold, of which trace they are, and which calls have them."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, DEFAULT_ON, Sampler
from opentelemetry.trace import SpanKind, StatusCode

from aclgrad_server.calls.call import Call
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.place import Place
from aclgrad_server.statistics import RUN, STAGES, WAIT
from aclgrad_server.tracing import tracer
from aclgrad_server.tracing.tracer import Tracer, open_tracer
from tests.server.fakes import FakeContext

TRACE, PARENT = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
SAMPLED, UNSAMPLED = (f"00-{TRACE:032x}-{PARENT:016x}-0{flag}" for flag in (1, 0))
UNARY = "aclgrad.v1.OperatorService/ExecuteOperator"


class Context(FakeContext):
    """A call with the metadata of its client."""

    parent: str | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ("x-request-id", "mine"), *([("traceparent", self.parent)] if self.parent else [])


async def spans_of(
    *calls: Callable[[Call], object], sampler: Sampler = DEFAULT_ON, parent: str | None = None
) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
    """Makes calls that do this, and returns their spans and those of their stages."""
    traced = Tracer(exporter := InMemorySpanExporter(), sampler, Resource({"service.name": "tested"}), "1.2")
    opened = OpenCalls(60, 60, on_begin=traced.begin)
    for work in calls:
        (context := Context()).parent = parent
        call = opened.begin("ExecuteOperator", context)
        call.works()
        work(call)
        call.replies()
        context.end()
    assert not opened.active_count
    await traced.stop()
    spans = sorted(exporter.get_finished_spans(), key=lambda each: each.start_time)
    kinds = SpanKind.SERVER, SpanKind.INTERNAL
    own, stages = ([each for each in spans if each.kind is kind] for kind in kinds)
    return own, stages


def succeed(call: Call) -> None:
    call.operator, call.received_bytes, call.sent_bytes, call.outcome = "softmax_backward", 3, 4, "OK"
    call.enter(WAIT)
    call.enter(RUN)


def fail(outcome: str, call: Call) -> None:
    call.outcome = outcome


async def test_a_call_has_a_span_and_its_stages_fill_it() -> None:
    (call,), stages = await spans_of(succeed)
    assert (call.name, call.parent, call.status.status_code) == (UNARY, None, StatusCode.UNSET)
    assert call.attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": UNARY,
        "rpc.response.status_code": "OK",
        "aclgrad.request_id": "mine",
        "aclgrad.operator": "softmax_backward",
        "aclgrad.received_bytes": 3,
        "aclgrad.sent_bytes": 4,
    }
    assert [(each.name, each.parent) for each in stages] == [(name, call.context) for name in STAGES]
    # Each begins as the one before it ends, and together they are the call.
    edges = [call.start_time, *(each.end_time for each in stages)]
    assert edges[:-1] == [each.start_time for each in stages]
    assert edges[-1] == pytest.approx(call.end_time, abs=10)
    assert {each.context.trace_id for each in stages} == {call.context.trace_id}
    assert len({each.context.span_id for each in (call, *stages)}) == 1 + len(stages)
    assert call.resource.attributes["service.name"] == "tested"
    assert call.instrumentation_scope.name == "aclgrad_server"


async def test_the_trace_of_a_client_goes_on_if_it_is_valid_and_sampled() -> None:
    (call,), stages = await spans_of(succeed, parent=SAMPLED)
    assert (call.parent.span_id, call.parent.is_remote) == (PARENT, True)
    assert {each.context.trace_id for each in (call, *stages)} == {TRACE}
    assert await spans_of(succeed, parent=UNSAMPLED) == ([], [])
    (call,), _ = await spans_of(succeed, parent="00-bad")
    assert call.parent is None
    assert call.context.trace_id not in (0, TRACE)


@pytest.mark.parametrize("parent", [None, UNSAMPLED])
@pytest.mark.parametrize(
    ("outcome", "code", "status"),
    [
        ("INVALID_FIELD", "INVALID_ARGUMENT", StatusCode.UNSET),
        ("CANCELLED", "CANCELLED", StatusCode.UNSET),
        ("SERVER_DRAINING", "UNAVAILABLE", StatusCode.ERROR),
    ],
)
async def test_a_failed_call_has_its_span_whatever_the_sampler_says(
    outcome: str, code: str, status: StatusCode, parent: str | None
) -> None:
    (call,), stages = await spans_of(succeed, partial(fail, outcome), sampler=ALWAYS_OFF, parent=parent)
    told = {key.removeprefix("aclgrad."): value for key, value in call.attributes.items()}
    assert (told["error.type"], told["rpc.response.status_code"], told["sampled"]) == (outcome, code, False)
    assert (told["operator"], call.status.status_code) == ("none", status)
    assert (call.parent.span_id if parent else call.parent) == (PARENT if parent else None)
    assert [each.name for each in stages] == ["receive", "plan", "reply"]


async def test_failed_steps_of_a_program_are_counted_and_its_stages_are_summed() -> None:
    def program(call: Call) -> None:
        call.outcome, call.step_count = "OK", 1007
        call.items = Counter({("tanh_backward", "OK"): 5, ("tanh_backward", "SERVER_BUSY"): 2})
        call.items.update({(f"invented {number}", "UNKNOWN_OPERATOR"): 1 for number in range(1000)})
        for _ in range(1000):
            call.enter(WAIT)
            call.enter(RUN)

    (call,), stages = await spans_of(program, sampler=ALWAYS_OFF)
    assert (call.attributes["aclgrad.steps"], call.attributes["aclgrad.failed_steps"]) == (1007, 1002)
    assert [each.name for each in stages] == list(STAGES)
    assert stages[-1].end_time == pytest.approx(call.end_time, abs=10)


async def test_a_clock_that_is_set_moves_no_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a call has the machine's time, and everything else the steady clock's distance from it."""
    call = Call("ExecuteOperator", Context(), 60.0, asyncio.Event())
    call.start, call.stage_since, call.trace_id = 100.0, 103.5, f"{TRACE:032x}"
    call.stages_s = [1.0, 0.0, 0.0, 2.5, 0.0]
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: 104.0)
        patched.setattr(time, "time_ns", lambda: 7_000_000_000)
        spans = Tracer(InMemorySpanExporter(), DEFAULT_ON, Resource({}), "1.2").spans(call, None, True)
    times = [(each.name, each.start_time / 1e9, each.end_time / 1e9) for each in spans]
    assert times == [(UNARY, 3.0, 6.5), ("receive", 3.0, 4.0), ("run", 4.0, 6.5)]


async def test_a_defect_of_traces_costs_no_call_and_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Tracer, "spans", lambda *_: 1 / 0)
    assert await spans_of(succeed, succeed) == ([], [])
    (told,) = caplog.records
    assert isinstance(told.exc_info[1], ZeroDivisionError)


def test_variables_override_what_describes_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str | int] = {}
    monkeypatch.setattr(tracer, "Tracer", lambda *given_: given.update(given_[2].attributes))
    for names in ({}, {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"}):
        for name, value in names.items():
            monkeypatch.setenv(name, value)
        open_tracer("1.2", Place(3, 4))
        found = given["service.name"], given["service.version"], given["aclgrad.worker"]
        assert found == (names.get("OTEL_SERVICE_NAME", "aclgrad-server"), "1.2", 3)
    assert given["deployment.environment.name"] == "test"
