"""The way of spans to a collector, as the OTEL_* variables say. A collector in trouble costs no call anything."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from aclgrad_server.exits import StartError
from aclgrad_server.limits import FLUSH_S, MAX_WAITING_SPANS
from aclgrad_server.logs import MAX_LOGGED
from aclgrad_server.tracing.variables import check_values

log = logging.getLogger(__name__)

COMPLAINT_INTERVAL_S: Final = 60.0
"""The log names a failing collector at most once in this time."""


class _LastWords(logging.Handler):
    """Keeps what OpenTelemetry would log: for each batch that it cannot send, some lines and a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        theirs = logging.getLogger("opentelemetry")
        # What is worth a line, we say ourselves.
        theirs.propagate = False
        theirs.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.util"):
            # It repeats the value, which may be a secret.
            self.text = "OTEL_EXPORTER_OTLP_HEADERS is not KEY=VALUE,KEY=VALUE"
        elif not record.name.startswith("opentelemetry.trace"):
            # Those tell of what clients sent, such as a malformed `tracestate`.
            self.text = record.getMessage()[:MAX_LOGGED]


_theirs: Final = _LastWords()


class Collector:
    """Sends spans in the background. As many wait as the limit says; any others are lost and counted."""

    def __init__(self, exporter: SpanExporter, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter = _Reporter(exporter, clock)
        self._processor = BatchSpanProcessor(self._reporter, max_queue_size=MAX_WAITING_SPANS)
        self._exporter = exporter
        self._added = self._dropped = 0
        self._is_stopped = False

    @property
    def sent(self) -> int:
        return self._reporter.sent

    @property
    def lost(self) -> int:
        return self._dropped + self._reporter.refused

    def add(self, spans: Sequence[ReadableSpan]) -> None:
        """Takes all of the spans of a call, or none of them. To be called on one thread."""
        if self._is_stopped or self._added - self._reporter.taken + len(spans) > MAX_WAITING_SPANS:
            self._dropped += len(spans)
            return
        self._added += len(spans)
        for each in spans:
            self._processor.on_end(each)

    def stop(self, limit_s: float = FLUSH_S) -> None:
        """Sends what waits, within the limit: a collector in trouble does not hold the end of the process."""
        self._is_stopped = True
        flushing = threading.Thread(target=self._processor.shutdown, name="flush spans", daemon=True)
        flushing.start()
        flushing.join(limit_s)
        if flushing.is_alive():
            # Ends the export that is under way.
            self._exporter.shutdown()
            unsure = self._added - self._reporter.sent - self._reporter.refused
            log.warning("the collector took too long: up to %d spans were not sent", unsure)


class _Reporter(SpanExporter):
    """Counts what another exporter does, and logs when it begins to fail and when it works again."""

    def __init__(self, exporter: SpanExporter, clock: Callable[[], float]) -> None:
        self._exporter = exporter
        self._clock = clock
        self.taken = self.sent = self.refused = 0
        self._refused_before = 0
        self._told_at: float | None = None
        self._is_told = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        try:
            result = self._exporter.export(spans)
        except Exception as error:
            # Without its text: gRPC's, of invalid metadata, has the headers, which may be secret.
            _theirs.text = type(error).__name__
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
            self._tell_success()
        else:
            self._tell_failure()
            self.refused += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def _tell_failure(self) -> None:
        now = self._clock()
        if self._is_told or (self._told_at is not None and now - self._told_at < COMPLAINT_INTERVAL_S):
            return
        self._is_told, self._told_at, self._refused_before = True, now, self.refused
        log.warning("traces are not sent, and calls go on: %s", _theirs.text)

    def _tell_success(self) -> None:
        if self._is_told:
            self._is_told = False
            log.info("traces are sent again; %d spans were refused", self.refused - self._refused_before)


def exporter_of_environment() -> OTLPSpanExporter:
    """Returns the exporter that the environment describes; raises StartError for values that cannot be used."""
    check_values()
    return OTLPSpanExporter()


@contextmanager
def strictly() -> Iterator[None]:
    """Raises StartError for what OpenTelemetry logs meanwhile: of a wrong value it makes another, such as a sampler
    that takes all.
    """
    _theirs.text = ""
    try:
        yield
    except StartError:
        raise
    except Exception as error:
        raise _refused(_theirs.text or str(error)) from error
    if _theirs.text:
        raise _refused(_theirs.text)


def _refused(why: str) -> StartError:
    return StartError(f"--tracing: OpenTelemetry refuses the value of a variable OTEL_*: {why}")
