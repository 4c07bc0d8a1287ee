"""The wait for a ready server, without input or output: both clients share it."""

import time
from typing import Final

from aclgrad._client.calls.exchange import Query
from aclgrad._client.reports import log
from aclgrad.errors import AclgradError, DeadlinePassedError, RetryableError

_PROBE_S: Final = 5.0
"""Time limit of one probe; a silent server is asked again."""
_FIRST_DELAY_S: Final = 0.05
_LONGEST_DELAY_S: Final = 0.5
_SERVING: Final = "SERVING"
_STATUSES: Final = {b"": "UNKNOWN", b"\x08\x01": _SERVING, b"\x08\x02": "NOT_SERVING", b"\x08\x03": "SERVICE_UNKNOWN"}
"""The replies of `grpc.health.v1`: one field, an enum."""

HEALTH: Final = Query("/grpc.health.v1.Health/Check", b"", lambda reply: _STATUSES.get(reply, "UNKNOWN"))
"""Asks whether the server as a whole takes calls."""


class Readiness:
    """The results of probes of a server, and the time of the next one."""

    def __init__(self, target: str, timeout_s: float | None) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._end = None if timeout_s is None else time.monotonic() + timeout_s
        self._delay_s = _FIRST_DELAY_S
        self._seen = ""

    def probe_s(self) -> float:
        """Returns the time limit of the next probe."""
        return _PROBE_S if self._end is None else max(0.0, min(_PROBE_S, self._end - time.monotonic()))

    def delay_after(self, seen: str | AclgradError) -> float | None:
        """Returns the delay of the next probe after this status or failure, or None if the server is ready.

        Raises DeadlinePassedError that says what was seen last, or an error that another probe cannot change.
        """
        if seen == _SERVING:
            return None
        if isinstance(seen, AclgradError) and not isinstance(seen, RetryableError | DeadlinePassedError):
            raise seen
        # The last probe may have had no time to see anything.
        if isinstance(seen, DeadlinePassedError):
            self._note(self._seen or "no reply")
        else:
            self._note(str(seen) if isinstance(seen, AclgradError) else f"its health is {seen}")
        left_s = None if self._end is None else self._end - time.monotonic()
        if left_s is not None and left_s <= 0:
            problem = f"{self._target}: the server was not ready within {self._timeout_s:g} s; last seen: {self._seen}"
            raise DeadlinePassedError(problem)
        delay_s, self._delay_s = self._delay_s, min(_LONGEST_DELAY_S, 2 * self._delay_s)
        return delay_s if left_s is None else min(delay_s, left_s)

    def _note(self, seen: str) -> None:
        if seen != self._seen:
            log.info("waits until %s is ready; last seen: %s", self._target, " ".join(seen.split()))
        self._seen = seen
