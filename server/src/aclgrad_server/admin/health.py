"""Whether the process is alive and ready: written by the main thread, read by the admin listener's."""

import time
from collections.abc import Callable
from typing import Final

BEAT_INTERVAL_S: Final = 0.05
"""How often the main loop is expected to beat."""
BEAT_LIMIT_S: Final = 10.0
"""Age of a heartbeat that means a hung loop: 200 intervals, and far more than an overloaded or paged-out process needs.

A shorter limit would restart servers that are only busy. A cluster asks several times before it restarts a container,
so a hung loop costs this time plus those attempts.
"""
START_LIMIT_S: Final = 120.0
"""Time to the first beat, which comes before the devices are opened."""


class Heartbeat:
    """Tells whether the main loop still runs. One thread beats, any thread asks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = clock()
        self._limit_s = START_LIMIT_S

    def beat(self) -> None:
        self._last_s = self._clock()
        self._limit_s = BEAT_LIMIT_S

    def age_s(self) -> float:
        """Returns the seconds since the last beat; before the first one, since the process started."""
        return self._clock() - self._last_s

    def failure(self) -> str | None:
        """Returns why the process counts as hung, or None if it does not."""
        age_s, limit_s = self.age_s(), self._limit_s
        if age_s <= limit_s:
            return None
        return f"the main loop has not run for {age_s:.0f} s (limit {limit_s:.0f} s)"


class Readiness:
    """Whether calls are welcome, and if not, why. Any thread may write and read."""

    def __init__(self) -> None:
        self._reason: str | None = "starting"

    @property
    def reason(self) -> str | None:
        """Why calls are not welcome, in a word or two; None if they are."""
        return self._reason

    def set_ready(self) -> None:
        self._reason = None

    def set_not_ready(self, reason: str) -> None:
        """Takes a short reason that anybody may read: "draining", "device lost"."""
        self._reason = reason
