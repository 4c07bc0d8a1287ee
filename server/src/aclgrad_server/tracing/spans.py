"""The spans of a call that has ended: one of the call, and one below it for each stage that it was in.

They are made as `ReadableSpan` and not by a tracer, which takes five times as long: docs/decisions/traces.md.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import grpc
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from aclgrad.errors import code_of_reason
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.calls.call import TRACEPARENT
from aclgrad_server.statistics import CANCELLED, OK, STAGES, label_of
from aclgrad_server.tracing.traced_call import TracedCall, Visit

SERVICE: Final = pb.DESCRIPTOR.services_by_name["OperatorService"].full_name
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_MAX_EVENTS: Final = 16  # kinds of failures in a batch that are told
_OK_STATUS: Final = Status(StatusCode.UNSET)
_FAULTS: Final = frozenset(
    getattr(grpc.StatusCode, name)
    for name in ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
)
"""Codes that OpenTelemetry counts as errors of a server; others are errors of the client alone."""


def name_of(call: TracedCall) -> str:
    return f"{SERVICE}/{call.method}"


def has_failed(call: TracedCall) -> bool:
    """Whether the call failed or was cancelled, or a call of a batch failed."""
    return call.outcome != OK or any(reason != OK for _, reason in call.items)


def parent_of(call: TracedCall) -> SpanContext:
    """Returns the client's span, whose context is valid: its fields have their places whatever its version."""
    parent = dict(call.context.invocation_metadata())[TRACEPARENT]
    return SpanContext(int(call.trace_id, 16), int(parent[36:52], 16), True, TraceFlags(int(parent[53:55], 16)))


class SpanMaker:
    """Makes the spans of calls of one process."""

    def __init__(self, resource: Resource, version: str) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("aclgrad_server", version)

    def spans(self, call: TracedCall, parent: SpanContext | None, is_sampled: bool) -> list[ReadableSpan]:
        """Returns the call's span and those of its stages. All have the same clock: they fit into each other."""
        trace_id, end = int(call.trace_id, 16), call.stage_since
        # The clock of the machine may be set during a call; durations are those of the steady clock.
        end_ns = time.time_ns() - round((time.monotonic() - end) * 1e9)

        def span(name: str, above: SpanContext | None, begin: float, left: float, **more: Any) -> ReadableSpan:
            return ReadableSpan(
                name,
                SpanContext(trace_id, random.getrandbits(64) or 1, False, _SAMPLED),
                above,
                self._resource,
                start_time=end_ns - round((end - begin) * 1e9),
                end_time=end_ns - round((end - left) * 1e9),
                instrumentation_scope=self._scope,
                **more,
            )

        told = {"attributes": _attributes(call, is_sampled), "events": list(_events(call, end_ns))}
        own = span(name_of(call), parent, call.start, end, kind=SpanKind.SERVER, status=_status(call), **told)
        return [own, *(span(STAGES[stage], own.context, begin, left) for stage, begin, left in _joined(call.visits))]


def _joined(visits: list[Visit]) -> list[Visit]:
    """Returns the visits; a stage that was entered again while the call was in it is one visit."""
    joined: list[Visit] = []
    for stage, begin, end in visits:
        if joined and (joined[-1][0], joined[-1][2]) == (stage, begin):
            begin = joined.pop()[1]
        joined.append((stage, begin, end))
    return joined


def _code(call: TracedCall) -> grpc.StatusCode:
    if call.outcome == OK:
        return grpc.StatusCode.OK
    return grpc.StatusCode.CANCELLED if call.outcome == CANCELLED else code_of_reason(call.outcome)


def _status(call: TracedCall) -> Status:
    return Status(StatusCode.ERROR, call.outcome) if _code(call) in _FAULTS else _OK_STATUS


def _attributes(call: TracedCall, is_sampled: bool) -> dict[str, str | int | bool]:
    """Returns what is known of the call. Of a client's own text, it has the request id alone."""
    found: dict[str, str | int | bool] = {
        "rpc.system.name": "grpc",
        "rpc.method": name_of(call),
        "rpc.response.status_code": _code(call).name,
        "aclgrad.request_id": call.request_id,
        "aclgrad.operator": label_of(call.operator, call.outcome),
        "aclgrad.received_bytes": call.received_bytes,
        "aclgrad.sent_bytes": call.sent_bytes,
    }
    if call.outcome != OK:
        found["error.type"] = call.outcome
    if call.items:
        found["aclgrad.calls"] = sum(call.items.values())
        found["aclgrad.failed_calls"] = sum(count for (_, reason), count in call.items.items() if reason != OK)
    if call.left_out_stages:
        found["aclgrad.left_out_stages"] = call.left_out_stages
    if not is_sampled:
        found["aclgrad.sampled"] = False
    return found


def _events(call: TracedCall, end_ns: int) -> Iterator[Event]:
    """Yields an event for each kind of failure in a batch."""
    failed: Counter[tuple[str, str]] = Counter()
    for (operator, reason), count in call.items.items():
        if reason != OK:
            failed[label_of(operator, reason), reason] += count
    for (operator, reason), count in failed.most_common(_MAX_EVENTS):
        told: dict[str, str | int] = {"aclgrad.operator": operator, "error.type": reason, "aclgrad.calls": count}
        yield Event("calls failed", told, end_ns)
