"""When a failed call is made again, and after how long: the one retry layer, without any input or output.

Every call is a pure function, so repeating one is safe. It is of use where the server says so by a delay, and where a
connection was lost; any other failure would only be repeated.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aclgrad.errors import AclgradError, ConnectionLostError

DEFAULT_RETRIES: Final = 4


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Up to `retries` attempts beyond the first, after delays that double from `first_delay_s` to `longest_delay_s`."""

    retries: int = DEFAULT_RETRIES
    first_delay_s: float = 0.2
    longest_delay_s: float = 5.0
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not self.retries >= 0:
            raise ValueError(f"retries is {self.retries}; give 0 or more")

    def start(self, timeout_s: float | None) -> "Attempts":
        """Begins a call that has this much time for all of its attempts together; None is without a limit."""
        return Attempts(self, timeout_s)

    def backoff_s(self, retry: int) -> float:
        """Returns a delay of full jitter: clients that failed together do not come back together."""
        # Beyond 2**32 the bound is reached by any first delay, and a float could not hold the power.
        return self.draw() * min(self.longest_delay_s, self.first_delay_s * 2.0 ** min(retry, 32))


class Attempts:
    """The attempts of one call: how much time the next one has, and whether and when there is a next one."""

    def __init__(self, policy: RetryPolicy, timeout_s: float | None) -> None:
        self._policy = policy
        self._end = None if timeout_s is None else policy.clock() + timeout_s
        self._retries = 0

    def time_left_s(self) -> float | None:
        """Returns what is left of the limit of the whole call; at most 0 where it has passed."""
        return None if self._end is None else self._end - self._policy.clock()

    def delay_after_s(self, error: AclgradError) -> float | None:
        """Returns how long to wait before the next attempt, or None where the error is the call's outcome.

        The delay that the server asks for is a minimum. A wait that the time limit would cut short is not begun: the
        caller learns at once what is wrong, rather than later that it took too long.
        """
        if self._retries >= self._policy.retries or not is_worth_a_retry(error):
            return None
        delay_s = (error.retry_after_s or 0.0) + self._policy.backoff_s(self._retries)
        left_s = self.time_left_s()
        if left_s is not None and delay_s >= left_s:
            return None
        self._retries += 1
        return delay_s


def is_worth_a_retry(error: AclgradError) -> bool:
    """Whether the same call may succeed later."""
    return error.retry_after_s is not None or isinstance(error, ConnectionLostError)
