"""Paces callers: each may spend so much a second."""

import time
from collections import OrderedDict
from collections.abc import Callable


class Throttle:
    """Lets each caller spend so many units a second. Nobody waits for longer than the longest pause."""

    def __init__(self, units_per_s: float, longest_pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._units_per_s = units_per_s
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """When each caller may go on without waiting; the caller that spent last is the last."""

    def delay_s(self, caller: str) -> float:
        """Returns how long the caller is to wait now; at most 0 for no wait."""
        return self._free_at.get(caller, 0.0) - self._clock()

    def spend(self, caller: str, units: float, seconds: float = 0.0) -> None:
        """Counts units that took so long until now, and forgets callers that have none to wait for."""
        now = self._clock()
        # Who took very long has not saved up for a burst.
        seconds = min(seconds, self._longest_pause_s)
        free_at = max(now - seconds, self._free_at.get(caller, 0.0)) + units / self._units_per_s
        self._free_at[caller] = min(free_at, now + self._longest_pause_s)
        self._free_at.move_to_end(caller)
        while self._free_at and next(iter(self._free_at.values())) < now:
            self._free_at.popitem(last=False)
