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
MAX_CALLERS: Final = 500
"""Who have lines in one window. Further ones are counted together: an attacker may have any number of addresses."""


class Audit:
    """Logs refusals. Ten thousand wrong tokens of one address are two lines, the second with their number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()
        """When each caller was refused for each reason, the oldest first, and how often since."""
        self._others = 0
        self._others_since = 0.0

    def refused(
        self, address: str, identity: str, why: str, peer: str, method: str, request_id: str, trace_id: str = UNKNOWN
    ) -> None:
        """Logs or counts one refusal."""
        self.sweep()
        caller = address, identity, why
        if caller in self._seen:
            since, count = self._seen[caller]
            self._seen[caller] = since, count + 1
        elif len(self._seen) < MAX_CALLERS:
            told = {"why": why, "identity": identity, "peer": peer, "method": method}
            told |= {"request_id": request_id, "trace_id": trace_id}
            # The request id, which a client chose, comes last.
            text = "refused %s: identity %s of %s, %s %s"
            log.warning(text, why, identity, peer, method, request_id, extra=fields(told))
            self._seen[caller] = self._clock(), 0
        else:
            self._others_since = self._others_since if self._others else self._clock()
            self._others += 1

    def sweep(self) -> None:
        """Tells how often callers were refused whose window is over."""
        oldest = self._clock() - WINDOW_S
        while self._seen and next(iter(self._seen.values()))[0] < oldest:
            (address, identity, why), (_, count) = self._seen.popitem(last=False)
            if count:
                told = {"why": why, "identity": identity, "peer": address, "count": count}
                text = "refused %s: identity %s of %s, %d more times"
                log.warning(text, why, identity, address, count, extra=fields(told))
        if self._others and self._others_since < oldest:
            log.warning("refused %d calls of further callers", self._others, extra=fields({"count": self._others}))
            self._others = 0
