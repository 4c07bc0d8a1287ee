"""Which calls have spans: those that the sampler chooses, and every one that fails."""

import asyncio
import logging
import os
import uuid
from functools import partial

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from aclgrad_server.place import Place
from aclgrad_server.tracing.collector import Collector, exporter_of_environment, strictly
from aclgrad_server.tracing.sampling import Sampling
from aclgrad_server.tracing.spans import SpanMaker, flags_of, has_failed, parent_of
from aclgrad_server.tracing.traced_call import TracedCall
from aclgrad_server.tracing.variables import endpoint

log = logging.getLogger(__name__)


class Tracer:
    """Traces the calls of one process. Spans are made when a call has ended, from times that it has anyway."""

    def __init__(self, collector: Collector, sampling: Sampling, maker: SpanMaker) -> None:
        self._collector = collector
        self._sampling = sampling
        self._maker = maker
        self._has_failed = False
        self.make_call = partial(TracedCall, self._ended)
        """Makes a call that is traced, of the arguments of a `Call`."""

    @property
    def spans(self) -> dict[str, int]:
        """How many spans were sent, and how many lost; any thread may ask."""
        return {"sent": self._collector.sent, "lost": self._collector.lost}

    async def stop(self) -> None:
        """Sends what waits, within a limit."""
        await asyncio.to_thread(self._collector.stop)

    def _ended(self, call: TracedCall, new_trace: int) -> None:
        try:
            flags = None if new_trace else flags_of(call)
            is_chosen = self._sampling.chooses(new_trace or int(call.trace_id, 16), flags)
            if is_chosen or has_failed(call):
                parent = None if new_trace else parent_of(call)
                self._collector.add(self._maker.spans(call, parent, is_chosen))
        except Exception as error:  # the rest of what ends a call has to happen
            if not self._has_failed:
                self._has_failed = True
                log.error("a call could not be traced, and nothing more is said of others", exc_info=error)


def open_tracer(version: str, place: Place | None) -> Tracer:
    """Returns the tracer that the OTEL_* variables describe; raises StartError if one of them is wrong."""
    with strictly():
        exporter, sampling = exporter_of_environment(), Sampling.of(os.environ)
        resource = _resource(version, place)
        return Tracer(Collector(exporter), sampling, SpanMaker(resource, version))


def check_environment() -> str:
    """Returns where traces go; raises StartError as `open_tracer` does."""
    with strictly():
        exporter, _, _ = exporter_of_environment(), Sampling.of(os.environ), _resource("", None)
    exporter.shutdown()
    return f"to {endpoint() or 'http://localhost:4317'}"


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
