"""The spans of ended calls: one for the call, and a child for each stage.

Calls chosen by the sampler have spans, and every failed call. They are `ReadableSpan`s made from the call's times; a
tracer takes five times as long: docs/decisions/traces.md.
"""

import asyncio
import logging
import os
import random
import threading
import time
import uuid
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from aclgrad.errors import code_of_reason
from aclgrad.wire.service import SERVICE_NAME
from aclgrad_server.calls.call import TRACEPARENT, Call
from aclgrad_server.limits import FLUSH_S
from aclgrad_server.logs import UNKNOWN
from aclgrad_server.place import Place
from aclgrad_server.statistics import CANCELLED, OK, STAGES, label_of

log = logging.getLogger(__name__)

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_FAULTS: Final = ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
"""Codes that OpenTelemetry counts as a server's errors; others are the client's alone."""


class Tracer:
    def __init__(self, exporter: SpanExporter, sampler: Sampler, resource: Resource, version: str) -> None:
        self._processor = BatchSpanProcessor(exporter)
        self._sampler = sampler
        self._resource = resource
        self._scope = InstrumentationScope("aclgrad_server", version)
        self._has_failed = False

    def begin(self, call: Call) -> None:
        """Makes the call's spans when it ends; begins a trace if the client has none."""
        begins_trace = call.trace_id == UNKNOWN
        if begins_trace:
            # Even if there may be no spans: the log names the trace of a failed call.
            call.trace_id = f"{random.getrandbits(128) or 1:032x}"
        # The function registered first runs last.
        call.at_end(partial(self._ended, call, begins_trace))

    async def stop(self, limit_s: float = FLUSH_S) -> None:
        """Sends the waiting spans within the limit: a slow collector does not delay the end of the process."""
        # A daemon: the process ends without it.
        stopping = threading.Thread(target=self._processor.shutdown, name="flush spans", daemon=True)
        stopping.start()
        await asyncio.to_thread(stopping.join, limit_s)
        if stopping.is_alive():
            log.warning("the collector took too long: the last spans were not sent")

    def spans(self, call: Call, parent: SpanContext | None, is_sampled: bool) -> list[ReadableSpan]:
        """Returns the call's span and those of its stages, which fill it without gaps."""
        # Durations are by the monotonic clock: the machine's clock may be set during a call.
        end_ns = time.time_ns() - round((time.monotonic() - call.stage_since) * 1e9)
        begin_ns = end_ns - round((call.stage_since - call.start) * 1e9)
        status = Status(StatusCode.ERROR, call.outcome) if _code(call) in _FAULTS else Status(StatusCode.UNSET)
        told: dict[str, Any] = {"attributes": _attributes(call, is_sampled), "status": status}
        own = self._span(call, _name(call), parent, begin_ns, end_ns, kind=SpanKind.SERVER, **told)
        moments = (begin_ns + round(each * 1e9) for each in accumulate(call.stages_s, initial=0.0))
        stages = zip(STAGES, pairwise(moments), strict=True)
        return [own, *(self._span(call, name, own.context, *times) for name, times in stages if times[0] < times[1])]

    def _span(
        self, call: Call, name: str, parent: SpanContext | None, begin_ns: int, end_ns: int, **more: Any
    ) -> ReadableSpan:
        context = SpanContext(int(call.trace_id, 16), random.getrandbits(64) or 1, False, _SAMPLED)
        more |= {"start_time": begin_ns, "end_time": end_ns, "instrumentation_scope": self._scope}
        return ReadableSpan(name, context, parent, self._resource, **more)

    def _ended(self, call: Call, begins_trace: bool) -> None:
        try:
            parent = None if begins_trace else _parent(call)
            context = Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())
            choice = self._sampler.should_sample(context, int(call.trace_id, 16), _name(call))
            is_sampled = choice.decision is Decision.RECORD_AND_SAMPLE
            if is_sampled or call.outcome != OK or any(reason != OK for _, reason in call.items):
                for span in self.spans(call, parent, is_sampled):
                    self._processor.on_end(span)
        except Exception as error:  # the other end functions of the call have to run
            if not self._has_failed:
                self._has_failed = True
                log.error("a call could not be traced, and nothing more is said of others", exc_info=error)


def open_tracer(version: str, place: Place | None) -> Tracer:
    """Returns the tracer that OpenTelemetry's variables describe; they override what describes this process."""
    own: dict[str, str | int] = {
        "service.name": "aclgrad-server",
        "service.version": version,
        "service.instance.id": str(uuid.uuid4()),
        "process.pid": os.getpid(),
    }
    if place is not None:
        own["aclgrad.worker"] = place.index
    # It would log malformed headers for the collector, which may be secret.
    logging.getLogger("opentelemetry.util").setLevel(logging.ERROR)
    overridden = Resource(own).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=Resource.create(overridden.attributes), shutdown_on_exit=False)
    # It would log every span that its full queue drops, on the event loop, at 50 µs of a call.
    logging.getLogger("opentelemetry.sdk").setLevel(logging.ERROR)
    return Tracer(OTLPSpanExporter(), provider.sampler, provider.resource, version)


def _name(call: Call) -> str:
    return f"{SERVICE_NAME}/{call.method}"


def _parent(call: Call) -> SpanContext:
    """Returns the client's span with a valid context: the fields are at the same places in every version."""
    parent = dict(call.context.invocation_metadata())[TRACEPARENT]
    return SpanContext(int(call.trace_id, 16), int(parent[36:52], 16), True, TraceFlags(int(parent[53:55], 16)))


def _code(call: Call) -> str:
    return call.outcome if call.outcome in (OK, CANCELLED) else code_of_reason(call.outcome).name


def _attributes(call: Call, is_sampled: bool) -> dict[str, str | int | bool]:
    """Returns the call's attributes. The request id is the only text of the client."""
    found: dict[str, str | int | bool] = {
        "rpc.system.name": "grpc",
        "rpc.method": _name(call),
        "rpc.response.status_code": _code(call),
        "aclgrad.request_id": call.request_id,
        "aclgrad.operator": label_of(call.operator, call.outcome),
        "aclgrad.received_bytes": call.received_bytes,
        "aclgrad.sent_bytes": call.sent_bytes,
    }
    if call.outcome != OK:
        found["error.type"] = call.outcome
    if call.step_count > 1:
        found["aclgrad.steps"] = call.step_count
    if call.items:
        found["aclgrad.failed_steps"] = sum(count for (_, reason), count in call.items.items() if reason != OK)
    if not is_sampled:
        found["aclgrad.sampled"] = False
    return found
