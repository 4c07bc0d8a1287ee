"""The audit: a logger of refusals whose filter lets one line of each caller through, and counts those that follow."""

import logging
import time
from collections.abc import Callable
from typing import Final

from aclgrad_server.logs import fields

WINDOW_S: Final = 10.0
"""How long further refusals of the same caller for the same reason are only counted."""
MAX_CALLERS: Final = 500
"""Who have lines in one window. Further ones are counted together: an attacker may have any number of addresses."""
OTHERS: Final = ("further callers", "", "")

log = logging.getLogger(__name__)


class RepeatedRefusals(logging.Filter):
    """Ten thousand wrong tokens of one address are two lines, the second with their number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}
        """When each caller was refused for each reason, the oldest first, and how often since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Takes records with `caller`: address, identity and reason; lets others through."""
        caller = getattr(record, "caller", None)
        if caller is None:
            return True
        self.sweep()
        is_new = caller not in self._seen
        if is_new and len(self._seen) >= MAX_CALLERS:
            caller, is_new = OTHERS, False
        since, count = self._seen.get(caller, (self._clock(), 0))
        self._seen[caller] = since, count + (not is_new)
        return is_new

    def sweep(self) -> None:
        """Tells how often callers were refused whose window is over."""
        oldest = self._clock() - WINDOW_S
        while self._seen and self._seen[caller := next(iter(self._seen))][0] < oldest:
            _, count = self._seen.pop(caller)
            address, identity, why = caller
            if caller is OTHERS:
                log.warning("refused %d calls of further callers", count, extra=fields({"count": count}))
            elif count:
                told = {"why": why, "identity": identity, "peer": address, "count": count}
                text = "refused %s: identity %s of %s, %d more times"
                log.warning(text, why, identity, address, count, extra=fields(told))
