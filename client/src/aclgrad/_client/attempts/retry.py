"""Decides whether, when and where a failed call is retried: the only retry layer, without input or output.

Every call is a pure function, so a retry is safe. It helps if the server names a delay, or if a connection was lost;
other failures would only recur. A call that reached no server waits for one, which uses none of its retries.

If several servers can answer, a silent attempt ends after a third of the remaining time, and the call fails over to
another server. An attempt gets all remaining time if that is less than half of the limit, or if there is no other
server: the call may only be slow. A call also fails over if a server of a list is not an aclgrad server or has another
product, and once to the front door if none of a host's workers answers.

A retry in chunks sends all bytes again. It is not begun if they took more time than is left: it would only fail later.
A `RetryBudget` bounds the retries of all calls of a client that no server asked for.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aclgrad._client.attempts.progress import Progress
from aclgrad._client.attempts.retry_budget import RetryBudget
from aclgrad._client.channel.servers import Balancing
from aclgrad._client.reports import CallReport, line_of, log
from aclgrad._client.settings.checks import checked_integer, checked_seconds
from aclgrad.errors import (
    AclgradError,
    CallCutError,
    ConnectionLostError,
    DeadlinePassedError,
    MethodNotServedError,
    OtherProductError,
    ServerUnreachableError,
)

if TYPE_CHECKING:
    from aclgrad.tracing import CallTrace

DEFAULT_RETRIES: Final = 4
DEFAULT_CONNECT_TIMEOUT_S: Final = 10.0
_MAX_CUTS: Final = 2
"""Retry a cut call once: if it was cut because it was slow, it is cut again."""
_NOBODY: Final = (ServerUnreachableError, MethodNotServedError)
"""Errors where the workers of a host were: no server, or another one."""
_MISPLACED: Final = (MethodNotServedError, OtherProductError)
"""Errors of a wrong server in a list."""
_SHARE: Final = 1 / 3
"""Share of the remaining time for an attempt that can fail over."""
_SLOW_BYTES_PER_S: Final = 2**20
"""A call that can fail over expects at least this speed of a connection."""
_LAST_SHARE: Final = 1 / 2
"""Share of the limit. An attempt with less left is the last: three attempts have 0.33, 0.22 and 0.44 of the limit."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds how often a call is retried (`retries`), and how long it waits for a server (`connect_timeout_s`).

    Delays double from `first_delay_s` to `longest_delay_s`; while no server can be reached, to
    `longest_connect_delay_s`.
    """

    retries: int = DEFAULT_RETRIES
    connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S
    first_delay_s: float = 0.2
    longest_delay_s: float = 5.0
    longest_connect_delay_s: float = 1.0
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    budget: RetryBudget = field(default_factory=RetryBudget)

    def __post_init__(self) -> None:
        checked_integer("retries", self.retries, 0)
        checked_seconds("connect_timeout_s", self.connect_timeout_s, 0.0)

    def start(self, timeout_s: float | None, method: str = "", request_id: str = "") -> Attempts:
        """Begins a call with this time limit for all its attempts together; None is no limit."""
        return Attempts(self, timeout_s, method, request_id)

    def backoff_s(self, failures: int, longest_s: float) -> float:
        """Returns a delay with full jitter, so that clients that failed together do not retry together."""
        # Any first delay reaches the bound before 2**32, and larger powers would overflow.
        return self.draw() * min(longest_s, self.first_delay_s * 2.0 ** min(failures, 32))


class Attempts:
    """The attempts of one call: whether and when there is a next one, and its time limit.

    Each retry is logged. `method` and `request_id` name the call.
    """

    __slots__ = (
        *("_balancing", "_begin", "_connects", "_cuts", "_end", "_failed", "_has_left_workers"),
        *("_policy", "_progress", "_refusal", "_resends", "_since", "_timeout_s", "_whole_s"),
        *("counted", "may_fail_over", "method", "request_id", "retries", "server", "trace", "tried"),
    )

    def __init__(self, policy: RetryPolicy, timeout_s: float | None, method: str, request_id: str) -> None:
        self.method = method
        self.request_id = request_id
        self._policy = policy
        self._timeout_s = self._whole_s = timeout_s
        """`_whole_s` is the time limit of this message of the call."""
        self._begin = self._since = policy.clock()
        """`_since` is the time when the call began to look for a server."""
        self._end = None if timeout_s is None else self._since + timeout_s
        self.retries = 0
        """The retries of all messages of the call."""
        self._resends = 0
        self._cuts = 0
        self._connects = 0
        self._balancing = Balancing.ONE
        self._progress: Progress | None = None
        """The progress of the present attempt, if it goes in chunks."""
        self.counted = policy.budget.call()
        self.may_fail_over = False
        """Whether the present attempt may fail over: there are other servers, and it has a retry of the budget."""
        self.tried: set[str] | None = None
        """The servers tried since the first failover; gRPC does not say which one was first."""
        self._has_left_workers = False
        """Whether the call has failed over from a host's workers to its front door."""
        self.server: str | None = None
        """The server that has answered, if it named itself."""
        self.trace: CallTrace | None = None
        """The spans of the call, if it is traced."""
        self._refusal = ""
        """Why there is no further attempt, although one might help."""
        self._failed: tuple[str, str | None] | None = None
        """Message and remedy of the previous error, whose traceback would keep all arrays in a cycle."""

    def of_another_message(self) -> Attempts:
        """Begins the attempts of another message, within the same time limit."""
        self.release()
        another = Attempts(self._policy, self._timeout_s, self.method, self.request_id)
        another._begin, another._end, another.retries = self._begin, self._end, self.retries
        another.server, another.trace, another._whole_s = self.server, self.trace, self.time_left_s()
        return another

    def connect_from_now(self) -> None:
        """Begins the search for a server: the call may have waited for a thread until now."""
        self._since = self._policy.clock()

    def time_left_s(self) -> float | None:
        """Returns the remaining time of the whole call; at most 0 once the limit has passed."""
        return None if self._end is None else self._end - self._policy.clock()

    def limit_s(self, balancing: Balancing, *, has_others: bool, message_bytes: int = 0) -> float | None:
        """Begins an attempt on a channel and returns its time limit: a third of the rest if it may fail over.

        The progress of a message is not visible, so the limit allows for a slow connection.
        """
        self._balancing, self.server, self._progress, self._refusal = balancing, None, None, ""
        left_s = self.time_left_s()
        share_s = None if left_s is None else max(_SHARE * left_s, message_bytes / _SLOW_BYTES_PER_S)
        is_last = left_s is not None and self._whole_s is not None and left_s < _LAST_SHARE * self._whole_s
        is_last |= share_s is not None and left_s is not None and share_s > left_s / 2
        self.release()
        # Reserved first: an attempt that cannot be retried must not be cut short.
        self.may_fail_over = has_others and not is_last and not self.counted.take()
        return share_s if self.may_fail_over and left_s is not None and left_s > 0 else left_s

    def follow_chunks(self, limit_s: float | None) -> Progress:
        """Returns the progress of an attempt in chunks, which is abandoned if nothing moves within its limit."""
        self._progress = Progress(limit_s if self.may_fail_over else None, self._end, self._policy.clock)
        return self._progress

    def fails_over(self, error: AclgradError) -> bool:
        """Whether the call goes to another server, because this one was silent or the wrong one of a list."""
        is_misplaced = self._balancing is Balancing.LISTED and isinstance(error, _MISPLACED)
        return self.may_fail_over and (is_misplaced or isinstance(error, DeadlinePassedError)) and self._is_in_time()

    def _is_in_time(self, delay_s: float = 0.0) -> bool:
        """Whether an attempt after a delay has time to transfer again what this one has; otherwise notes why not."""
        needed_s = 0.0 if self._progress is None else self._progress.needed_s
        left_s = math.inf if self._end is None else self._end - self._policy.clock() - delay_s
        if needed_s and 0 < left_s <= needed_s:
            self._refusal = f"its bytes took {needed_s:.1f} s, and {left_s:.1f} s of its time limit would be left"
        return left_s > needed_s

    def delay_after_s(self, error: AclgradError) -> float | None:
        """Returns the delay before the next attempt, or None if the error is the call's outcome.

        The server's delay is a minimum. A wait beyond the time limit is not begun, so that the caller gets this error
        at once instead of a timeout later.
        """
        if self.fails_over(error):
            if isinstance(error, OtherProductError):
                # That server is well, and no server is asked often.
                self.release()
            else:
                self.counted.use()
            self.tried = self.tried or set()
            # If no server is there, the search begins now.
            self._connects, self._since = 0, self._policy.clock()
            self.retries += 1
            return self._elsewhere(error, "another server")
        self.release()
        if self._balancing is Balancing.WORKERS and isinstance(error, _NOBODY) and not self._has_left_workers:
            self._has_left_workers = True
            return self._elsewhere(error, "the front door")
        now = self._policy.clock()
        is_unreached = isinstance(error, ServerUnreachableError)
        if is_unreached:
            delay_s = self._policy.backoff_s(self._connects, self._policy.longest_connect_delay_s)
            if now + delay_s - self._since > self._policy.connect_timeout_s:
                return None
        else:
            self._cuts += isinstance(error, CallCutError)
            if self._resends >= self._policy.retries or self._cuts >= _MAX_CUTS or not is_worth_a_retry(error):
                return None
            delay_s = (error.retry_after_s or 0.0) + self._policy.backoff_s(self._resends, self._policy.longest_delay_s)
        if not self._is_in_time(delay_s):
            return None
        if not is_unreached and error.retry_after_s is None:
            self._refusal = self.counted.take()
            if self._refusal:
                return None
            self.counted.use()
        if is_unreached:
            self._connects += 1
            told = f"looks again for a server, for up to {self._policy.connect_timeout_s:g} s"
        else:
            self._resends += 1
            self._connects, self._since = 0, now + delay_s
            self.retries += 1
            told = f"retry {self._resends} of {self._policy.retries}"
        self._failed = error.message, error.remedy
        log.warning("%s %s failed; %s, in %.2f s: %s", self.request_id, self.method, told, delay_s, line_of(error))
        return delay_s

    def release(self) -> None:
        """Gives back an unused retry."""
        self.counted.give_back()

    def _elsewhere(self, error: AclgradError, where: str) -> float:
        self._failed = error.message, error.remedy
        log.warning("%s %s goes to %s: %s", self.request_id, self.method, where, line_of(error))
        return 0.0

    def no_delay_after(self, error: AclgradError) -> float:
        """Counts a retry in the form that the error asks for, which is sent at once."""
        self.retries += 1
        log.debug("%s %s is sent again in another form: %s", self.request_id, self.method, line_of(error))
        return 0.0

    def report(self, error: AclgradError | None = None) -> CallReport:
        """Returns the report of the ended call, and logs it for debugging."""
        seconds = self._policy.clock() - self._begin
        outcome = "ok" if error is None else line_of(error)
        log.debug("%s %s in %.1f ms: %s", self.request_id, self.method, 1e3 * seconds, outcome)
        return CallReport(
            self.request_id, self.method, seconds, self.retries, error, self.server, self._policy.budget.left
        )

    def explain(self, error: AclgradError) -> None:
        """Adds the call's id to the error; to a passed deadline also the limit and the previous failure."""
        error.request_id = error.request_id or self.request_id
        message = error.message
        if self._refusal:
            message += f"; it is not sent again: {self._refusal}"
        if isinstance(error, DeadlinePassedError):
            if self._timeout_s is not None:
                message += f" (timeout_s was {self._timeout_s:g} s)"
            if self._failed is not None:
                before, remedy = self._failed
                message += f"; the attempt before it failed: {before}"
                error.remedy = remedy or error.remedy
        error.message = message
        error.args = (message,)


def is_worth_a_retry(error: AclgradError) -> bool:
    """Whether the same call may succeed later."""
    return error.retry_after_s is not None or isinstance(error, ConnectionLostError)
