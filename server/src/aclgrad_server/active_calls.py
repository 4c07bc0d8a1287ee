"""The calls that a server has begun to answer and not yet ended, and its refusal of new ones."""

import threading
from typing import Final

import grpc

from aclgrad.errors import ServerDrainingError

RETRY_AFTER_DRAIN_S: Final = 1.0


class ActiveCalls:
    """Counts calls until their handler has returned and grpc has sent the reply; after `refuse` none starts any more.

    Neither end implies the other: a client that gives up ends its call while the handler still runs.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._handlers = 0
        self._replies = 0
        self._refusing = False
        self._events = 0

    def enter(self, context: grpc.ServicerContext) -> None:
        """Counts the reply until it is sent; raises ServerDrainingError after `refuse`."""
        with self._changed:
            if self._refusing:
                remedy = "try again, on another server if there is one"
                raise ServerDrainingError(
                    f"the server is shutting down; {remedy}", remedy=remedy, retry_after_s=RETRY_AFTER_DRAIN_S
                )
            self._replies += 1
        if not context.add_callback(self._leave):
            self._leave()  # the client has gone already

    def enter_handler(self) -> None:
        with self._changed:
            self._handlers += 1
            self._events += 1

    def leave_handler(self) -> None:
        with self._changed:
            self._handlers -= 1
            self._events += 1
            self._changed.notify_all()

    def any(self) -> bool:
        with self._changed:
            return bool(self._handlers or self._replies)

    def event_count(self) -> int:
        """Returns a number that grows whenever a call begins or ends."""
        with self._changed:
            return self._events

    def refuse(self) -> None:
        with self._changed:
            self._refusing = True

    def wait_until_none(self, timeout_s: float) -> bool:
        """Says whether the last call ended in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._handlers or self._replies), timeout_s)

    def _leave(self) -> None:
        with self._changed:
            self._replies -= 1
            self._events += 1
            self._changed.notify_all()
