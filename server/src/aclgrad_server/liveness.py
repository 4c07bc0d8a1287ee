"""Whether the process lives and takes calls: the heartbeat of its main loop, and its readiness."""

import time
from collections.abc import Callable
from typing import Final

BEAT_INTERVAL_S: Final = 0.05  # how often the main loop is expected to beat
BEAT_LIMIT_S: Final = 10.0
"""Age of a heartbeat that means a hung loop, far more than an overloaded process needs: busy ones are not restarted."""


class Heartbeat:
    """Says whether the main loop still runs. One thread beats, any thread asks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = clock()

    def beat(self) -> None:
        self._last_s = self._clock()

    def age_s(self) -> float:
        """Returns the seconds since the last beat; before the first one, since it was made."""
        return self._clock() - self._last_s

    def failure(self) -> str | None:
        """Returns why the process counts as hung, or None if it does not."""
        age_s = self.age_s()
        if age_s <= BEAT_LIMIT_S:
            return None
        return f"the main loop has not run for {age_s:.0f} s (limit {BEAT_LIMIT_S:.0f} s)"


class Readiness:
    """Whether calls are welcome, and if not, why: "starting", "draining", "device lost", or which device is unfit.

    Any thread may use it.
    """

    def __init__(self) -> None:
        self.reason: str | None = "starting"
        """Why calls are not welcome, in a word or two for the public; None if they are."""

    def set_ready(self) -> None:
        self.reason = None

    def set_not_ready(self, reason: str) -> None:
        self.reason = reason
