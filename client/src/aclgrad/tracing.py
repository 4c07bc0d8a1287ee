"""Spans of a client's calls, by OpenTelemetry's API; loaded only by clients with `tracing=True`.

A call has a span, and each attempt a child, whose trace context is sent to the server.
"""

from typing import Final

from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aclgrad.errors import AclgradError
from aclgrad.wire.service import path_of

__all__ = ["CallTrace", "TracerProvider", "Tracing"]

_MAX_DESCRIPTION: Final = 500
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class CallTrace:
    """The spans of one call; its caller's span is their parent."""

    def __init__(self, tracer: Tracer, span: Span, request_id: str) -> None:
        self._tracer = tracer
        self._request_id = request_id
        self._attempt: Span | None = None
        self.span = span

    def begin_attempt(self, method: str) -> tuple[tuple[str, str], ...]:
        """Begins the span of an attempt, and returns the metadata for the server."""
        self.end_attempt()
        name = path_of(method).removeprefix("/")
        attributes = {"rpc.system.name": "grpc", "rpc.method": name, "aclgrad.request_id": self._request_id}
        above = set_span_in_context(self.span)
        self._attempt = self._tracer.start_span(name, above, SpanKind.CLIENT, attributes)
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers, set_span_in_context(self._attempt))
        return tuple(headers.items())

    def end_attempt(self, error: BaseException | None = None, server: str | None = None) -> None:
        """Ends the span of the attempt, if one is under way."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        if server is not None:
            attempt.set_attribute("aclgrad.server", server)
        code = error.code.name if isinstance(error, AclgradError) else "OK" if error is None else "CANCELLED"
        attempt.set_attribute("rpc.response.status_code", code)
        _end(attempt, error)

    def end(self, error: BaseException | None, retries: int) -> None:
        """Ends the call, and a cancelled attempt."""
        self.end_attempt(error)
        self.span.set_attribute("aclgrad.retries", retries)
        _end(self.span, error)


class Tracing:
    """Begins the traces of a client's calls, with spans of the provider."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """Without a provider, uses the global one at each call."""
        self._tracer = get_tracer("aclgrad", tracer_provider=provider)

    def begin(self, method: str, operator: str | None, request_id: str) -> CallTrace:
        """Begins a call now, below the current span."""
        attributes = {"aclgrad.request_id": request_id}
        if operator is not None:
            attributes["aclgrad.operator"] = operator
        span = self._tracer.start_span(operator or method, attributes=attributes)
        return CallTrace(self._tracer, span, request_id)


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        reason = error.reason if isinstance(error, AclgradError) else ""
        span.set_attribute("error.type", reason or type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)[:_MAX_DESCRIPTION]))
    span.end()
