"""A failed call has its span, whatever the sampler says."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import grpc
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from aclgrad.errors import InvalidFieldError, ServerFaultError, UnknownOperatorError
from aclgrad_server.calls.call import Call
from aclgrad_server.limits import MAX_STAGE_SPANS
from aclgrad_server.statistics import RUN, WAIT
from aclgrad_server.tracing.sampling import Sampling
from tests.server.fakes import wait_until

from .traced_service import PARENT, UNARY, UNSAMPLED, TracedService

NEVER = Sampling.of({"OTEL_TRACES_SAMPLER": "always_off"})


async def raise_(error: Exception) -> bytes:
    raise error


FAILURES: dict[str, tuple[Callable[[bytes, Call], Awaitable[bytes]], str, bool]] = {
    "INVALID_FIELD": (
        lambda message, call: raise_(InvalidFieldError.at("x", "is wrong", "mend it")),
        "INVALID_ARGUMENT",
        False,
    ),
    "UNKNOWN_OPERATOR": (lambda message, call: raise_(UnknownOperatorError("none")), "NOT_FOUND", False),
    "INTERNAL_ERROR": (lambda message, call: raise_(ServerFaultError("broken")), "INTERNAL", True),
}


@pytest.mark.parametrize("metadata", [{}, {"traceparent": UNSAMPLED}], ids=["alone", "unsampled parent"])
@pytest.mark.parametrize("reason", FAILURES)
async def test_a_failed_call_has_its_span_whatever_the_sampler_says(reason: str, metadata: dict[str, str]) -> None:
    async with TracedService(NEVER) as service:
        assert await service.call(**metadata) is grpc.StatusCode.OK
        service.behaviour, code, is_fault = FAILURES[reason]
        assert (await service.call(x_request_id="failed", **metadata)).name == code
        spans = await service.spans()
    (call,) = (each for each in spans if each.kind is SpanKind.SERVER)
    told = {key.removeprefix("aclgrad."): value for key, value in call.attributes.items()}
    assert (told["request_id"], told["error.type"], told["rpc.response.status_code"]) == ("failed", reason, code)
    assert told["sampled"] is False
    assert told["operator"] == ("unknown" if reason == "UNKNOWN_OPERATOR" else "none")
    assert call.status.status_code is (StatusCode.ERROR if is_fault else StatusCode.UNSET)
    assert (call.parent.span_id if metadata else call.parent) == (PARENT if metadata else None)
    assert [each.name for each in spans if each.parent == call.context] == ["receive", "plan", "reply"]


async def test_calls_that_are_late_cancelled_or_refused_have_their_span() -> None:
    async with TracedService(NEVER, call_timeout_s=1e-6) as service:
        begun = asyncio.Event()

        async def wait(message: bytes, call: Call) -> bytes:
            begun.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        async def be_late(message: bytes, call: Call) -> bytes:
            call.check_deadline()
            raise AssertionError

        service.behaviour = be_late
        await service.call(x_request_id="late")
        service.behaviour = wait
        cancelled = service.begin(x_request_id="cancelled")
        await begun.wait()
        cancelled.cancel()
        await wait_until(lambda: not service.calls.any())
        silent = service.channel.stream_unary(f"/{UNARY}")(metadata=(("x-request-id", "silent"),))
        await wait_until(service.calls.any)
        service.calls.refuse()
        assert await silent.code() is grpc.StatusCode.UNAVAILABLE
        await service.call(x_request_id="refused")
        spans = await service.call_spans()
    assert {each.attributes["aclgrad.request_id"]: each.attributes["error.type"] for each in spans} == {
        "late": "DEADLINE_PASSED",
        "cancelled": "CANCELLED",
        "silent": "SERVER_DRAINING",
        "refused": "SERVER_DRAINING",
    }
    codes = {each.attributes["aclgrad.request_id"]: each.attributes["rpc.response.status_code"] for each in spans}
    assert codes == {
        "late": "DEADLINE_EXCEEDED",
        "cancelled": "CANCELLED",
        "silent": "UNAVAILABLE",
        "refused": "UNAVAILABLE",
    }


async def test_failed_calls_of_a_batch_are_told_and_bounded() -> None:
    async with TracedService(NEVER) as service:
        items = Counter({("tanh_backward", "OK"): 5, ("tanh_backward", "SERVER_BUSY"): 2})
        items.update({(f"invented {number}", "UNKNOWN_OPERATOR"): 1 for number in range(1000)})

        async def batch(message: bytes, call: Call) -> bytes:
            call.items = items
            for _ in range(1000):
                call.enter(WAIT)
                call.enter(RUN)
            return message

        service.behaviour = batch
        assert await service.call() is grpc.StatusCode.OK
        spans = await service.spans()
    (call,) = (each for each in spans if each.kind is SpanKind.SERVER)
    told = call.attributes
    assert (told["aclgrad.calls"], told["aclgrad.failed_calls"]) == (1007, 1002)
    assert [(each.name, dict(each.attributes)) for each in call.events] == [
        (
            "calls failed",
            {"aclgrad.operator": "unknown", "error.type": "UNKNOWN_OPERATOR", "aclgrad.calls": 1000},
        ),
        ("calls failed", {"aclgrad.operator": "tanh_backward", "error.type": "SERVER_BUSY", "aclgrad.calls": 2}),
    ]
    stages = [each.name for each in spans if each.parent == call.context]
    assert len(stages) == MAX_STAGE_SPANS + 1
    assert stages[-1] == "reply"
    # What was entered: receive, plan, then two for each group; the last one is left for the reply.
    assert told["aclgrad.left_out_stages"] == 2 + 2000 - MAX_STAGE_SPANS
