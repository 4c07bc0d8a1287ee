"""Checks of what a client is given, before gRPC makes something of it."""

import math
import operator
from typing import Any, SupportsFloat, TypeVar

from aclgrad.errors import InvalidSettingError

_Hook = TypeVar("_Hook")


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


def refused(name: str, value: Any, remedy: str) -> InvalidSettingError:
    """Returns the error of a setting with this value."""
    return InvalidSettingError(f"{name} is {value!r}", field=name, remedy=remedy)
