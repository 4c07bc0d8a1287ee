"""When a failed call is made again, and after how long: the one retry layer, without any input or output.

Every call is a pure function, so repeating one is safe. It helps if the server says so by a delay, or if a connection
was lost; any other failure would only be repeated. A call that reached no server was not sent: it waits for a server,
and its retries are for what comes then.

Where several servers can answer, an attempt that hears nothing ends after a third of the time that is left, and the
call goes to another server. As soon as less than half of its limit is left, or no other server, an attempt has all of
that: the call may only be slow. A call also moves if it meets a stranger in a list, or a server with another product
than its own, and once to the front door if it finds nobody among the workers of a host.

A repeat in chunks moves all bytes again. It is not begun if less time is left than they took: its error would only be a
later one. Attempts that nobody asked for are bounded for all calls of a client together: a `RetryBudget`.
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
"""A call that was cut because it was slow is cut again, one that a stopping server cut is not: one retry shows it."""
_NOBODY: Final = (ServerUnreachableError, MethodNotServedError)
"""What a call meets where the workers of a host were: nobody, or a stranger."""
_MISPLACED: Final = (MethodNotServedError, OtherProductError)
"""What a call meets in a list whose servers are not alike."""
_SHARE: Final = 1 / 3
"""Of the time that is left, for an attempt that another server can take over."""
_SLOW_BYTES_PER_S: Final = 2**20
"""A connection is not slower, as far as a call that has others to go to can wait."""
_LAST_SHARE: Final = 1 / 2
"""Of the limit. With less than that, an attempt is the last: three attempts have 0.33, 0.22 and 0.44 of the limit."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds how often a call is sent again (`retries`), and for how long it waits for a server (`connect_timeout_s`).

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
        """Begins a call that has this much time for all of its attempts together; None is without a limit."""
        return Attempts(self, timeout_s, method, request_id)

    def backoff_s(self, failures: int, longest_s: float) -> float:
        """Returns a delay of full jitter: clients that failed together do not come back together."""
        # Beyond 2**32 the bound is reached by any first delay, and a float could not hold the power.
        return self.draw() * min(longest_s, self.first_delay_s * 2.0 ** min(failures, 32))


class Attempts:
    """The attempts of one call: how much time the next one has, and whether and when there is a next one.

    Each retry is a line of the log. `method` and `request_id` name the call.
    """

    __slots__ = (
        *("_balancing", "_begin", "_connects", "_cuts", "_end", "_failed", "_has_left"),
        *("_policy", "_progress", "_refusal", "_resends", "_since", "_timeout_s", "_whole_s"),
        *("counted", "may_move", "method", "request_id", "retries", "server", "trace", "tried"),
    )

    def __init__(self, policy: RetryPolicy, timeout_s: float | None, method: str, request_id: str) -> None:
        self.method = method
        self.request_id = request_id
        self._policy = policy
        self._timeout_s = self._whole_s = timeout_s
        """`_whole_s` is what this message of the call had at first."""
        self._begin = self._since = policy.clock()
        """`_since` is when the call began to look for a server."""
        self._end = None if timeout_s is None else self._since + timeout_s
        self.retries = 0
        """How often the call was sent again, all of its messages together."""
        self._resends = 0
        self._cuts = 0
        self._connects = 0
        self._balancing = Balancing.ONE
        self._progress: Progress | None = None
        """That of the present attempt, if it goes in chunks."""
        self.counted = policy.budget.call()
        self.may_move = False
        """Whether another server may take over the present attempt, and the call has a retry of the budget for it."""
        self.tried: set[str] | None = None
        """The servers that a call which moved has been sent to since; which one was first, gRPC does not say."""
        self._has_left = False
        """Whether the call has gone to the front door."""
        self.server: str | None = None
        """The server that has answered, if it named itself."""
        self.trace: CallTrace | None = None
        """The spans of the call, if it is traced."""
        self._refusal = ""
        """Why there is no further attempt although one might help."""
        self._failed: tuple[str, str | None] | None = None
        """Message and remedy of the attempt before; its error's traceback would keep all arrays in a cycle."""

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
        """Returns what is left of the limit of the whole call; at most 0 where it has passed."""
        return None if self._end is None else self._end - self._policy.clock()

    def limit_s(self, balancing: Balancing, *, has_others: bool, message_bytes: int = 0) -> float | None:
        """Begins an attempt on a channel, and returns how long it may take: a third if others can take it over.

        Nobody sees how a message moves, so an attempt has the time that it takes over a slow connection, too.
        """
        self._balancing, self.server, self._progress, self._refusal = balancing, None, None, ""
        left_s = self.time_left_s()
        share_s = None if left_s is None else max(_SHARE * left_s, message_bytes / _SLOW_BYTES_PER_S)
        is_last = left_s is not None and self._whole_s is not None and left_s < _LAST_SHARE * self._whole_s
        is_last |= share_s is not None and left_s is not None and share_s > left_s / 2
        self.release()
        # Taken before, because an attempt that cannot be repeated is not to be cut short.
        self.may_move = has_others and not is_last and not self.counted.take()
        return share_s if self.may_move and left_s is not None and left_s > 0 else left_s

    def follow_chunks(self, limit_s: float | None) -> Progress:
        """Returns the progress of an attempt in chunks, which is given up if nothing moves for its limit."""
        self._progress = Progress(limit_s if self.may_move else None, self._end, self._policy.clock)
        return self._progress

    def moves(self, error: AclgradError) -> bool:
        """Whether an attempt that heard nothing, or met the wrong server of a list, is to be made on another one."""
        is_misplaced = self._balancing is Balancing.LISTED and isinstance(error, _MISPLACED)
        return self.may_move and (is_misplaced or isinstance(error, DeadlinePassedError)) and self._is_in_time()

    def _is_in_time(self, delay_s: float = 0.0) -> bool:
        """Whether an attempt after a delay has the time to move again what this one has moved; notes if it has not."""
        needed_s = 0.0 if self._progress is None else self._progress.needed_s
        left_s = math.inf if self._end is None else self._end - self._policy.clock() - delay_s
        if needed_s and 0 < left_s <= needed_s:
            self._refusal = f"its bytes took {needed_s:.1f} s, and {left_s:.1f} s of its time limit would be left"
        return left_s > needed_s

    def delay_after_s(self, error: AclgradError) -> float | None:
        """Returns how long to wait before the next attempt, or None where the error is the call's outcome.

        The delay that the server asks for is a minimum. A wait that the time limit would cut short is not begun: the
        caller learns at once what is wrong, rather than later that it took too long.
        """
        if self.moves(error):
            if isinstance(error, OtherProductError):
                # Nothing is wrong there, and no server is asked often.
                self.release()
            else:
                self.counted.use()
            self.tried = self.tried or set()
            # If nobody is there, the call looks for a server from now on.
            self._connects, self._since = 0, self._policy.clock()
            self.retries += 1
            return self._elsewhere(error, "another server")
        self.release()
        if self._balancing is Balancing.WORKERS and isinstance(error, _NOBODY) and not self._has_left:
            self._has_left = True
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
        """Gives back the retry that an attempt did not need."""
        self.counted.give_back()

    def _elsewhere(self, error: AclgradError, where: str) -> float:
        self._failed = error.message, error.remedy
        log.warning("%s %s goes to %s: %s", self.request_id, self.method, where, line_of(error))
        return 0.0

    def no_delay_after(self, error: AclgradError) -> float:
        """Returns 0: the call is sent again at once, in the form that the error asks for."""
        self.retries += 1
        log.debug("%s %s is sent again in another form: %s", self.request_id, self.method, line_of(error))
        return 0.0

    def report(self, error: AclgradError | None = None) -> CallReport:
        """Ends the call with its result or its error, which it logs for those who debug."""
        seconds = self._policy.clock() - self._begin
        outcome = "ok" if error is None else line_of(error)
        log.debug("%s %s in %.1f ms: %s", self.request_id, self.method, 1e3 * seconds, outcome)
        return CallReport(
            self.request_id, self.method, seconds, self.retries, error, self.server, self._policy.budget.left
        )

    def explain(self, error: AclgradError) -> None:
        """Adds the id of the call; to a passed deadline also the limit, and why the attempt before it failed."""
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
