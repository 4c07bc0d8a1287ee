"""Which calls have spans: those that the sampler chooses, and every one that fails."""

import asyncio
import logging
import os
import threading
import uuid
from functools import partial

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from aclgrad_server.limits import FLUSH_S
from aclgrad_server.place import Place
from aclgrad_server.tracing.spans import SpanMaker, has_failed, name_of, parent_of
from aclgrad_server.tracing.traced_call import TracedCall

log = logging.getLogger(__name__)


class Tracer:
    """Traces the calls of one process. Spans are made when a call has ended, from times that it has anyway."""

    def __init__(self, exporter: SpanExporter, sampler: Sampler, maker: SpanMaker) -> None:
        self._processor = BatchSpanProcessor(exporter)
        self._sampler = sampler
        self._maker = maker
        self._has_failed = False
        self.make_call = partial(TracedCall, self._ended)
        """Makes a call that is traced, of the arguments of a `Call`."""

    async def stop(self, limit_s: float = FLUSH_S) -> None:
        """Sends what waits, within the limit: a collector in trouble does not hold the end of the process."""
        # A daemon: the process ends without it.
        stopping = threading.Thread(target=self._processor.shutdown, name="flush spans", daemon=True)
        stopping.start()
        await asyncio.to_thread(stopping.join, limit_s)
        if stopping.is_alive():
            log.warning("the collector took too long: the last spans were not sent")

    def _ended(self, call: TracedCall, begins_trace: bool) -> None:
        try:
            parent = None if begins_trace else parent_of(call)
            context = Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())
            choice = self._sampler.should_sample(context, int(call.trace_id, 16), name_of(call))
            is_chosen = choice.decision is Decision.RECORD_AND_SAMPLE
            if is_chosen or has_failed(call):
                for span in self._maker.spans(call, parent, is_chosen):
                    self._processor.on_end(span)
        except Exception as error:  # the rest of what ends a call has to happen
            if not self._has_failed:
                self._has_failed = True
                log.error("a call could not be traced, and nothing more is said of others", exc_info=error)


def open_tracer(version: str, place: Place | None) -> Tracer:
    """Returns the tracer that OpenTelemetry's variables describe."""
    # It would repeat malformed headers for the collector, which may be secret.
    logging.getLogger("opentelemetry.util").setLevel(logging.ERROR)
    provider = TracerProvider(resource=_resource(version, place), shutdown_on_exit=False)
    # From here on it would log every span that its full queue drops, on the event loop, which takes 50 µs of a call.
    logging.getLogger("opentelemetry.sdk").setLevel(logging.ERROR)
    return Tracer(OTLPSpanExporter(), provider.sampler, SpanMaker(provider.resource, version))


def _resource(version: str, place: Place | None) -> Resource:
    """Returns what describes this process; variables override it."""
    own: dict[str, str | int] = {
        "service.name": "aclgrad-server",
        "service.version": version,
        "service.instance.id": str(uuid.uuid4()),
        "process.pid": os.getpid(),
    }
    if place is not None:
        own["aclgrad.worker"] = place.index
    overridden = Resource(own).merge(OTELResourceDetector().detect())
    return Resource.create(overridden.attributes)
