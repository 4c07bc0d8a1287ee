"""Small calls that share a message, without any input or output: who goes at once, who waits, and who goes together.

A call goes at once, by itself, while fewer than `MAX_IN_FLIGHT` messages of its lane are under way; otherwise it waits.
When a message has ended, those that wait go together in the next one. There is no timer: an idle client never waits.
Retries stay with each call: what is shared is one attempt.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from typing import Final, TypeAlias

import grpc
from google.rpc.status_pb2 import Status

from aclgrad._client.attempts.retry import Attempts
from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.exchanges import Execution, gradient_of
from aclgrad._client.calls.message_limit import MessageLimit
from aclgrad._client.calls.outgoing import LARGE_BYTES
from aclgrad._client.reports import log
from aclgrad.errors import AclgradError, DeadlinePassedError, MethodNotServedError, ServerFaultError
from aclgrad.wire.messages import CallResult, decode_batch, encode_batch

SMALL_BYTES: Final = 64 * 2**10
"""A call with more goes by itself: it would gain little, and may go through shared memory."""
MAX_IN_FLIGHT: Final = 2
"""Messages of a lane under way: the next one is written while the server computes."""
MAX_CALLS: Final = 64
"""Calls in a message: more hardly make it cheaper, and each waits for the slowest."""
_FIELDS_BYTES: Final = 256
"""What stands beside the data of a call in a message, either way, at most."""
_DEADLINE_EXCEEDED: Final = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


class Alone:
    """The outcome of a call that has to be sent by itself."""


MESSAGE_ID: Final = "message_request_id"
"""Where an error has the id under which the server logged the message, if it is not that of the call."""
ALONE: Final = Alone()
Outcome: TypeAlias = CallResult | AclgradError | Alone


class Waiting(ABC):
    """A call that waits for others of its lane."""

    def __init__(self, call: Execution, attempts: Attempts) -> None:
        """Raises InvalidFieldError for an attribute that has no form on the wire."""
        self.call = call
        self.attempts = attempts
        self.request = call.request
        self.reply_bytes = sum(each.type.size_bytes for each in call.outputs)
        self.turn: Sequence[Waiting] | None = None
        """When its turn has come to send the next message: the others that go with it."""

    @property
    @abstractmethod
    def has_left(self) -> bool:
        """Whether its caller no longer waits."""

    @abstractmethod
    def tell(self, outcome: Outcome) -> None:
        """Has the caller go on with the outcome, unless the caller has left."""

    def gradient(self, outcome: CallResult | AclgradError) -> Array:
        """Returns the gradient, or raises the error of the call."""
        if isinstance(outcome, tuple):
            return gradient_of(outcome, self.call.destination)
        error = outcome if isinstance(outcome, AclgradError) else error_of_status(outcome)
        if error.request_id not in (None, self.attempts.request_id):
            # The id in the server's log is that of the message.
            error.metadata = {**error.metadata, MESSAGE_ID: error.request_id or ""}
            error.request_id = self.attempts.request_id
        try:
            raise error
        finally:
            # The error's traceback has this frame, and the call has the error and its arrays: a cycle would keep them.
            del self, error, outcome

    def has_time(self) -> bool:
        left_s = self.attempts.time_left_s()
        return left_s is None or left_s > 0


class Message:
    """The calls that go together; it is an exchange whose errors each call judges for itself."""

    method = "BatchExecuteOperators"

    def __init__(self, calls: Sequence[Waiting]) -> None:
        self._calls = calls
        self.request = encode_batch([each.request for each in calls])
        self.size_bytes = max(len(self.request), sum(each.reply_bytes + _FIELDS_BYTES for each in calls))

    def read(self, reply: bytes) -> list[Outcome]:
        """Returns the outcome of each call."""
        try:
            results = decode_batch(reply)
        except ValueError as error:
            raise unreadable_reply(error) from error
        if len(results) != len(self._calls):
            raise ServerFaultError(f"the server answered {len(results)} of {len(self._calls)} calls of the batch")
        return [
            ALONE if isinstance(result, Status) and result.code == _DEADLINE_EXCEEDED and waiting.has_time() else result
            for waiting, result in zip(self._calls, results, strict=True)
        ]

    def amend(self, error: AclgradError) -> None:
        return None


class Lane:
    """The calls of one operator that have about the same time left; safe to share between threads."""

    def __init__(self, coalescer: "Coalescer") -> None:
        self._coalescer = coalescer
        self._waiting: deque[Waiting] = deque()
        self._in_flight = 0
        self._lock = threading.Lock()

    def enter(self, waiting: Waiting | None = None) -> bool:
        """Returns whether a call may go at once, by itself; `waiting` waits if it may not."""
        with self._lock:
            if self._in_flight < MAX_IN_FLIGHT:
                self._in_flight += 1
                return True
            if waiting is not None:
                self._waiting.append(waiting)
            return False

    def leave(self) -> Sequence[Waiting]:
        """Ends a message and returns the calls of the next, which has begun; the first of them has the turn."""
        with self._lock:
            calls = self._next()
            if calls:
                calls[0].turn = calls[1:]
            else:
                self._in_flight -= 1
            return calls

    def turn_of(self, waiting: Waiting) -> Sequence[Waiting] | None:
        """Returns the turn of a call whose caller has left, if it had come; it does not come any more."""
        with self._lock:
            return waiting.turn

    def message(self, calls: Sequence[Waiting]) -> tuple[Message, Attempts]:
        """Returns the message of these calls, with the time of the call that has least, and the id that they share."""
        left = [left_s for each in calls if (left_s := each.attempts.time_left_s()) is not None]
        carried = [each.attempts for each in calls]
        message, attempts = Message(calls), self._coalescer.start(min(left, default=None), carried)
        ids = [each.request_id for each in carried]
        log.debug("%s %s carries %s", attempts.request_id, message.method, ids)
        return message, attempts

    def after(self, error: AclgradError, calls: Sequence[Waiting]) -> list[Outcome]:
        """Returns the outcome of each call of a message that failed as a whole: as if it had gone by itself."""
        if isinstance(error, MethodNotServedError):
            self._coalescer.is_served = False
        if self._coalescer.limit.learn(error) or not self._coalescer.is_served:
            return [ALONE] * len(calls)
        is_late = isinstance(error, DeadlinePassedError)
        # Each caller adds to its own.
        return [ALONE if is_late and each.has_time() else copy(error).with_traceback(None) for each in calls]

    def _next(self) -> list[Waiting]:
        """Takes those out that go together: they fit in a message that is no larger than one that a loop may copy."""
        calls: list[Waiting] = []
        most_bytes = min(self._coalescer.limit.size_bytes, LARGE_BYTES)
        request_bytes = reply_bytes = 0
        while self._waiting and len(calls) < MAX_CALLS:
            waiting = self._waiting[0]
            if not waiting.has_left:
                request_bytes += len(waiting.request) + _FIELDS_BYTES
                reply_bytes += waiting.reply_bytes + _FIELDS_BYTES
                if calls and max(request_bytes, reply_bytes) > most_bytes:
                    break
                calls.append(waiting)
            self._waiting.popleft()
        return calls


class Coalescer:
    """The lanes of one client; `start` begins a message for these calls, within so many seconds."""

    def __init__(self, limit: MessageLimit, start: Callable[[float | None, Sequence[Attempts]], Attempts]) -> None:
        self.limit = limit
        self.start = start
        self._lanes: dict[tuple[str, int | None], Lane] = {}
        self.is_served = True
        """Whether the server takes batches, as far as is known."""

    def lane(self, call: Execution, limit_s: float | None) -> Lane | None:
        """Returns the lane of a call that has so much time left, or None for a call that goes by itself."""
        if not self.is_served or not call.outputs or call.size_bytes > SMALL_BYTES:
            return None
        if call.in_chunks(call.size_bytes) or (limit_s is not None and not 0 < limit_s < math.inf):
            return None
        # Time limits from one power of two to the next are alike.
        key = call.outgoing.call.operator, None if limit_s is None else math.frexp(limit_s)[1]
        return self._lanes.get(key) or self._lanes.setdefault(key, Lane(self))
