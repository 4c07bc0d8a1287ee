"""The argument `tracing` of a client: whether its calls have spans, and of which provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aclgrad._client.settings.checks import refused
from aclgrad._client.settings.metadata import Pair
from aclgrad.errors import InvalidSettingError
from aclgrad.extras import remedy_of

if TYPE_CHECKING:
    from aclgrad.tracing import TracerProvider, Tracing

_KEYS: Final = frozenset(("traceparent", "tracestate"))


def checked_tracing(given: bool | TracerProvider, metadata: Sequence[Pair]) -> Tracing | None:
    """Returns what begins traces, or None; raises InvalidSettingError for another value, or without OpenTelemetry."""
    if given is False:
        return None
    if given is not True and not callable(getattr(given, "get_tracer", None)):
        raise refused("tracing", given, "give True, False or a TracerProvider of OpenTelemetry")
    if taken := sorted(_KEYS & {key for key, _ in metadata}):
        problem = f"metadata has the key {taken[0]!r}, which tracing sets"
        raise InvalidSettingError(problem, field="tracing", remedy="leave one of them out")
    try:
        from aclgrad.tracing import Tracing
    except ModuleNotFoundError:
        problem = "tracing needs OpenTelemetry, which is not installed"
        raise InvalidSettingError(problem, field="tracing", remedy=remedy_of("otel")) from None
    return Tracing(None if given is True else given)
