"""The argument `tracing` of a client: whether its calls have spans, and of which provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aclgrad._client.settings.checks import refused
from aclgrad.errors import InvalidSettingError
from aclgrad.extras import remedy_of

if TYPE_CHECKING:
    from aclgrad.tracing import TracerProvider, Tracing


def checked_tracing(given: bool | TracerProvider) -> Tracing | None:
    """Returns what begins traces, or None; raises InvalidSettingError for another value, or without OpenTelemetry."""
    if given is False:
        return None
    if given is not True and not callable(getattr(given, "get_tracer", None)):
        raise refused("tracing", given, "give True, False or a TracerProvider of OpenTelemetry")
    try:
        from aclgrad.tracing import Tracing
    except ModuleNotFoundError:
        problem = "tracing needs OpenTelemetry, which is not installed"
        raise InvalidSettingError(problem, field="tracing", remedy=remedy_of("otel")) from None
    return Tracing(None if given is True else given)
