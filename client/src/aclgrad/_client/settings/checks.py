"""Checks of the arguments of a client and its calls, before gRPC sees them."""

from __future__ import annotations

import math
import operator
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, SupportsFloat, TypeVar

from aclgrad.errors import InvalidSettingError
from aclgrad.extras import remedy_of

if TYPE_CHECKING:
    from aclgrad.tracing import TracerProvider, Tracing

_Hook = TypeVar("_Hook")
DEFAULT_TIMEOUT_S: Final = 120.0
_MAX_TIMEOUT_S: Final = 1e8
"""gRPC's clock cannot count more."""


class TimeLimitError(Exception):
    """The time limit of a call passed while it waited."""


class Default(Enum):
    """The type of DEFAULT."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "aclgrad.DEFAULT"


DEFAULT: Final = Default.DEFAULT
"""As `timeout_s` of a call: the client's own."""
Timeout = float | Default | None
"""A number of seconds, None for no limit, or DEFAULT for the client's limit."""


def checked_integer(name: str, value: int, minimum: int, maximum: int | None = None) -> int:
    """Returns the value as an int; raises InvalidSettingError unless it is an integer within the bounds."""
    bounds = f"of {minimum} or more" if maximum is None else f"from {minimum} to {maximum}"
    try:
        if isinstance(value, bool):
            raise TypeError("a bool counts nothing")
        number = operator.index(value)
    except TypeError:
        raise refused(name, value, f"give an integer {bounds}") from None
    if number < minimum or (maximum is not None and number > maximum):
        raise refused(name, value, f"give an integer {bounds}")
    return number


def checked_seconds(name: str, value: SupportsFloat, minimum_s: float = -math.inf) -> float:
    """Returns the value as a float, which may be infinite; raises InvalidSettingError unless it is a time."""
    if type(value) is float and value >= minimum_s:
        return value
    at_least = "" if minimum_s == -math.inf else f", {minimum_s:g} or more"
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError("text is no number")
        seconds = float(value)
    except (TypeError, ValueError):
        raise refused(name, value, f"give a number of seconds{at_least}") from None
    except OverflowError:
        return math.inf
    if not seconds >= minimum_s:
        raise refused(name, value, f"give a number of seconds{at_least}")
    return seconds


def checked_hook(name: str, value: _Hook) -> _Hook:
    """Returns the value; raises InvalidSettingError unless it can be called or is None."""
    if value is not None and not callable(value):
        raise refused(name, value, "give a function")
    return value


def time_limit(timeout_s: Timeout, default_s: float | None) -> float | None:
    """Returns the limit as gRPC takes it: None for no limit.

    Raises InvalidSettingError unless it is a number of seconds, None or DEFAULT.
    """
    if timeout_s is DEFAULT:
        limit_s = default_s
    else:
        limit_s = None if timeout_s is None else checked_seconds("timeout_s", timeout_s)
    return None if limit_s is None or limit_s > _MAX_TIMEOUT_S else limit_s


def checked_tracing(given: bool | TracerProvider) -> Tracing | None:
    """Returns the tracer of calls, or None; raises InvalidSettingError for another value, or without OpenTelemetry."""
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


def refused(name: str, value: Any, remedy: str) -> InvalidSettingError:
    """Returns the error of a setting with this value."""
    return InvalidSettingError(f"{name} is {value!r}", field=name, remedy=remedy)
