"""Small calls of threads that share a message: the thread whose turn it is sends the message for all of them."""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any

from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.coalescing import ALONE, Alone, Lane, Outcome, Waiting
from aclgrad._client.calls.exchanges import Execution
from aclgrad._client.settings.timeouts import TimeLimitError
from aclgrad.errors import AclgradError

Attempt = Callable[[Any, Attempts], Any]
"""Sends an exchange once and returns what it reads."""


class WaitingThread(Waiting):
    """A waiting call of a thread: `tell` wakes the thread with the outcome, or with its turn to send."""

    def __init__(self, call: Execution, attempts: Attempts) -> None:
        super().__init__(call, attempts)
        self._mail: SimpleQueue[Outcome | None] = SimpleQueue()
        self._has_left = False

    @property
    def has_left(self) -> bool:
        return self._has_left

    def tell(self, outcome: Outcome) -> None:
        self._mail.put(outcome)

    def cancel(self) -> None:
        self._mail.put(None)

    def outcome(self, lane: Lane) -> Outcome:
        """Waits; raises TimeLimitError when the time limit has passed, and CancelledError after `cancel`."""
        left_s = self.attempts.time_left_s()
        try:
            outcome = self._mail.get(timeout=None if left_s is None else max(0.0, left_s))
            if outcome is None:
                raise CancelledError
        except BaseException as error:
            self._has_left = True
            # Others may count on this thread to send their message.
            others = lane.turn_of(self)
            if others is not None:
                _end_turn(lane, others, [ALONE] * len(others))
            if isinstance(error, Empty):
                raise TimeLimitError from None
            raise
        return outcome


def send(
    lane: Lane,
    call: Any,
    attempts: Attempts,
    attempt: Attempt,
    on_wait: Callable[[WaitingThread], None],
) -> Array:
    """Makes one attempt of the call, with others if it has to wait; raises what `attempt` and `outcome` raise."""
    if lane.enter():
        return _send_alone(lane, call, attempts, attempt)
    waiting = WaitingThread(call, attempts)
    if lane.enter(waiting):
        return _send_alone(lane, call, attempts, attempt)
    on_wait(waiting)
    outcome = waiting.outcome(lane)
    if waiting.turn:
        outcome = _send_together(lane, waiting, waiting.turn, attempt)
    elif waiting.turn is not None:
        return _send_alone(lane, call, attempts, attempt)
    if isinstance(outcome, Alone):
        gradient: Array = attempt(call, attempts)
        return gradient
    try:
        return waiting.gradient(outcome)
    finally:
        # An error's traceback has this frame.
        del waiting, outcome


def _send_alone(lane: Lane, call: Execution, attempts: Attempts, attempt: Attempt) -> Array:
    try:
        gradient: Array = attempt(call, attempts)
        return gradient
    finally:
        _end_turn(lane, (), ())


def _send_together(lane: Lane, own: Waiting, others: Sequence[Waiting], attempt: Attempt) -> Outcome:
    """Sends the message, tells the others their outcomes and returns that of the thread's own call."""
    calls = (own, *others)
    outcomes: Sequence[Outcome] = [ALONE] * len(calls)
    try:
        outcomes = attempt(*lane.message(calls))
    except AclgradError as error:
        outcomes = lane.after(error, calls)
    finally:
        _end_turn(lane, others, outcomes[1:])
    return outcomes[0]


def _end_turn(lane: Lane, others: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
    """Gives the turn to the next message, which may be written while the outcomes are read."""
    if following := lane.leave():
        following[0].tell(ALONE)
    for waiting, outcome in zip(others, outcomes, strict=True):
        waiting.tell(outcome)
