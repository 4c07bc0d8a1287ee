"""Small calls of asyncio tasks that share a message: a task of the client sends it, so that any of theirs may leave."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.coalescing import ALONE, Alone, Lane, Outcome, Waiting
from aclgrad._client.calls.exchanges import Execution
from aclgrad._client.settings.timeouts import TimeLimitError
from aclgrad.errors import AclgradError

Attempt = Callable[[Any, Attempts], Awaitable[Any]]
"""Sends an exchange once and returns what it reads."""

_sending: Final[set[asyncio.Task[None]]] = set()
"""asyncio itself keeps no task alive."""


class WaitingTask(Waiting):
    """A waiting call of a task: `tell` wakes the task with the outcome, or with its turn to send."""

    def __init__(self, call: Execution, attempts: Attempts) -> None:
        super().__init__(call, attempts)
        self._mail: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()

    @property
    def has_left(self) -> bool:
        return self._mail.done()

    def tell(self, outcome: Outcome | None) -> None:
        if not self._mail.done():
            self._mail.set_result(outcome)

    async def outcome(self) -> Outcome:
        """Waits; raises TimeLimitError when the time limit has passed."""
        left_s = self.attempts.time_left_s()
        timer = None if left_s is None else self._mail.get_loop().call_later(left_s, self.tell, None)
        try:
            outcome = await self._mail
        finally:
            if timer is not None:
                timer.cancel()
        if outcome is None:
            raise TimeLimitError
        return outcome


async def send(lane: Lane, call: Any, attempts: Attempts, attempt: Attempt) -> Array:
    """Makes one attempt of the call, with others if it has to wait; raises what `attempt` and `outcome` raise."""
    if lane.enter():
        return await _send_alone(lane, call, attempts, attempt)
    waiting = WaitingTask(call, attempts)
    # No other task has run since.
    lane.enter(waiting)
    try:
        outcome = await waiting.outcome()
    except BaseException:
        if waiting.turn is not None:
            # It was this task's turn, and the task was cancelled at that moment.
            _end_turn(lane, attempt)
        raise
    if waiting.turn is not None:
        return await _send_alone(lane, call, attempts, attempt)
    if isinstance(outcome, Alone):
        gradient: Array = await attempt(call, attempts)
        return gradient
    try:
        return waiting.gradient(outcome)
    finally:
        # An error's traceback has this frame.
        del waiting, outcome


async def _send_alone(lane: Lane, call: Execution, attempts: Attempts, attempt: Attempt) -> Array:
    try:
        gradient: Array = await attempt(call, attempts)
        return gradient
    finally:
        _end_turn(lane, attempt)


async def _send_together(lane: Lane, calls: Sequence[Waiting], attempt: Attempt) -> None:
    outcomes: Sequence[Outcome] = [ALONE] * len(calls)
    try:
        outcomes = await attempt(*lane.message(calls))
    except AclgradError as error:
        outcomes = lane.after(error, calls)
    finally:
        _end_turn(lane, attempt)
        for waiting, outcome in zip(calls, outcomes, strict=True):
            waiting.tell(outcome)


def _end_turn(lane: Lane, attempt: Attempt) -> None:
    """Begins the next message."""
    calls = lane.leave()
    if len(calls) == 1:
        calls[0].tell(ALONE)
    elif calls:
        calls[0].turn = None
        task = asyncio.create_task(_send_together(lane, calls, attempt))
        _sending.add(task)
        task.add_done_callback(_sending.discard)
