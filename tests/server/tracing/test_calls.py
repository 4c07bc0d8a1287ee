"""Calls over loopback on a server with a scripted service: what their spans hold, and of which trace they are."""

import asyncio
import logging
import time
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind, StatusCode

from aclgrad.errors import UnknownOperatorError
from aclgrad_server.calls.call import Call
from aclgrad_server.limits import MAX_TRACE_STATE
from aclgrad_server.statistics import STAGES
from aclgrad_server.tracing.spans import SpanMaker
from aclgrad_server.tracing.traced_call import TracedCall
from tests.server.fakes import FakeContext

from .traced_service import PARENT, SAMPLED, TRACE, UNARY, UNSAMPLED, TracedService


async def test_a_call_has_a_span_and_its_stages_fill_it(service: TracedService) -> None:
    assert await service.call(x_request_id="mine") is grpc.StatusCode.OK
    spans = sorted(await service.spans(), key=lambda each: (each.parent is not None, each.start_time))
    call, *stages = spans
    assert (call.name, call.parent, call.status.status_code) == (UNARY, None, StatusCode.UNSET)
    assert call.attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": UNARY,
        "rpc.response.status_code": "OK",
        "aclgrad.request_id": "mine",
        "aclgrad.operator": "softmax_backward",
        "aclgrad.received_bytes": 3,
        "aclgrad.sent_bytes": 3,
    }
    assert [each.name for each in stages] == list(STAGES)
    assert all(each.parent == call.context and each.kind is SpanKind.INTERNAL for each in stages)
    # Each begins as the one before it ends, and together they are the call.
    edges = [call.start_time, *(each.end_time for each in stages)]
    assert edges == [*(each.start_time for each in stages), call.end_time]
    assert {each.context.trace_id for each in spans} == {call.context.trace_id}
    assert len({each.context.span_id for each in spans}) == len(spans)
    assert all(each.resource.attributes["service.name"] == "tested" for each in spans)
    assert {each.instrumentation_scope.name for each in spans} == {"aclgrad_server"}


async def test_the_trace_of_a_client_goes_on(service: TracedService) -> None:
    await service.call(traceparent=SAMPLED, tracestate="vendor=1,other=2")
    await service.call(traceparent=UNSAMPLED)
    spans = await service.spans()
    (call,) = (each for each in spans if each.kind is SpanKind.SERVER)
    assert (call.parent.span_id, call.parent.is_remote) == (PARENT, True)
    assert {each.context.trace_id for each in spans} == {TRACE}
    assert {each.context.trace_state.to_header() for each in spans} == {"vendor=1,other=2"}


BAD_PARENTS = {
    "malformed": "00-bad",
    "zero trace": f"00-{'0' * 32}-{PARENT:016x}-01",
    "zero parent": f"00-{TRACE:032x}-{'0' * 16}-01",
    "version ff": f"ff{SAMPLED[2:]}",
    "upper case": SAMPLED.upper(),
    "long": SAMPLED + "-" + "x" * 3000,
}


@pytest.mark.parametrize("value", BAD_PARENTS.values(), ids=BAD_PARENTS)
async def test_a_parent_that_is_not_valid_begins_a_new_trace(service: TracedService, value: str) -> None:
    assert await service.call(traceparent=value, tracestate="a=b") is grpc.StatusCode.OK
    (call,) = await service.call_spans()
    assert call.parent is None
    assert call.context.trace_id not in (0, TRACE)
    assert call.context.trace_state.to_header() == ""


LONGEST = f"a={'x' * 253},b={'x' * (MAX_TRACE_STATE - 258)}"
"""Of two pairs, because a value has at most 256 characters."""


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (LONGEST, True),
        (f"{LONGEST}x", False),
        (",".join(f"k{number}=1" for number in range(900)), False),
        (",".join(f"k{number}=1" for number in range(33)), False),
        ("no pair", False),
    ],
    ids=["longest", "too long", "huge", "too many", "malformed"],
)
async def test_what_a_client_says_beside_its_trace_is_bounded(
    service: TracedService, value: str, kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert await service.call(traceparent=SAMPLED, tracestate=value) is grpc.StatusCode.OK
    (call,) = await service.call_spans()
    assert call.context.trace_state.to_header() == (value if kept else "")
    assert call.parent.span_id == PARENT
    assert not [each for each in caplog.records if each.name.startswith("aclgrad_server")]


async def test_the_log_names_the_trace_of_a_call_that_began_one(
    service: TracedService, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(message: bytes, call: Call) -> bytes:
        raise UnknownOperatorError("none")

    service.behaviour = fail
    with caplog.at_level(logging.INFO, "aclgrad_server"):
        await service.call()
        (call,) = await service.call_spans()
    assert f"trace {call.context.trace_id:032x}: NOT_FOUND" in caplog.text


async def test_a_clock_that_is_set_moves_no_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a call has the machine's time, and everything else the steady clock's distance from it."""
    call = TracedCall(lambda call, new_trace: None, "ExecuteOperator", FakeContext(), 60.0, asyncio.Event())
    call.start, call.stage_since = 100.0, 103.5
    call.visits = [(0, 100.0, 101.0), (3, 101.0, 103.5)]
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: 104.0)
        patched.setattr(time, "time_ns", lambda: 7_000_000_000)
        spans = SpanMaker(Resource({}), "1.2").spans(call, None, True)
    times = [(each.name, each.start_time / 1e9, each.end_time / 1e9) for each in spans]
    assert times == [(UNARY, 3.0, 6.5), ("receive", 3.0, 4.0), ("run", 4.0, 6.5)]


async def test_a_defect_of_traces_costs_no_call_and_one_line(
    service: TracedService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(SpanMaker, "spans", fail)
    codes = [await service.call() for _ in range(3)]
    assert not await service.spans()
    assert set(codes) == {grpc.StatusCode.OK}
    assert service.calls.statistics.rpcs() == {("ExecuteOperator", "OK"): 3}
    (told,) = caplog.records
    assert told.exc_info is not None
    assert "a defect" in str(told.exc_info[1])
