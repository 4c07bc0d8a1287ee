"""The audit: a line for each identity that is refused. Those that repeat themselves are counted."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from aclgrad_server.log_forms import UNKNOWN, fields

log = logging.getLogger(__name__)

WINDOW_S: Final = 10.0
"""How long further refusals of the same caller for the same reason are only counted."""
MAX_CALLERS: Final = 1000  # that are remembered


class Audit:
    """Logs refusals. Ten thousand wrong tokens of one address are two lines, the second with their number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()
        """When each caller was refused for each reason, the oldest first, and how often since."""

    def refused(
        self, address: str, identity: str, why: str, peer: str, method: str, request_id: str, trace_id: str = UNKNOWN
    ) -> None:
        """Logs or counts one refusal."""
        self.sweep()
        caller = address, identity, why
        if caller in self._seen:
            since, count = self._seen[caller]
            self._seen[caller] = since, count + 1
            return
        told = {"why": why, "identity": identity, "peer": peer, "method": method}
        told |= {"request_id": request_id, "trace_id": trace_id}
        log.warning("refused %s: identity %s of %s, %s %s", why, identity, peer, request_id, method, extra=fields(told))
        self._seen[caller] = self._clock(), 0
        if len(self._seen) > MAX_CALLERS:
            self._forget_oldest()

    def sweep(self) -> None:
        """Tells how often callers were refused whose window is over."""
        oldest = self._clock() - WINDOW_S
        while self._seen and next(iter(self._seen.values()))[0] < oldest:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        (address, identity, why), (_, count) = self._seen.popitem(last=False)
        if count:
            told = {"why": why, "identity": identity, "peer": address, "count": count}
            log.warning(
                "refused %s: identity %s of %s, %d more times", why, identity, address, count, extra=fields(told)
            )
