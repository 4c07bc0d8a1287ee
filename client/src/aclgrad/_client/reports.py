"""Reports of calls: log lines of the logger `aclgrad`, and the report for `on_call`."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aclgrad.errors import AclgradError

_MAX_LOGGED: Final = 500

log: Final = logging.getLogger("aclgrad")
log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class CallReport:
    """A call that has ended: its result has come, or the error that it raises.

    `method` is that of the service, such as "ExecuteOperator". `retries` counts how often it was sent again; `seconds`
    is the time of all attempts. `server` is the one that answered, by the name it gives itself: the host and port, or
    the path, that it listens on; None if nobody answered, or an older server. `retry_budget` is how many retries the
    client had left for all of its calls.
    """

    request_id: str
    method: str
    seconds: float
    retries: int
    error: AclgradError | None
    server: str | None = None
    retry_budget: int = 0


OnCall = Callable[[CallReport], object]


def line_of(error: AclgradError) -> str:
    """Returns the error in one line, whatever the text of a server holds."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _MAX_LOGGED else f"{text[:_MAX_LOGGED]} ..."
