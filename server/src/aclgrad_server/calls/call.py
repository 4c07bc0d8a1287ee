"""One RPC from its arrival until its reply has left, and all of them: counting, refusing and cutting them."""

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import grpc.aio

from aclgrad.errors import (
    AclgradError,
    ClientTooSlowError,
    DeadlinePassedError,
    MalformedRequestError,
    ServerBusyError,
    ServerDrainingError,
)
from aclgrad_server.limits import PROGRESS_BYTES
from aclgrad_server.request_id import request_id_of

RETRY_AFTER_DRAIN_S: Final = 1.0
RETRY_AFTER_PRESSURE_S: Final = 1.0
_LATE_S: Final = 0.25
"""How long after a deadline a call is cut: until then the device reports it by itself."""

Context = Any
"""grpc.aio.ServicerContext, whose stubs are generic and whose class is not."""


class Call:
    """One RPC of our service. `deadline` and `start` are times of `time.monotonic`."""

    __slots__ = (
        "_ends",
        "_error",
        "_has_ended",
        "_may_read",
        "_moved_bytes",
        "_task",
        "address",
        "context",
        "deadline",
        "has_begun",
        "has_returned",
        "is_replying",
        "method",
        "peer",
        "request_id",
        "start",
        "waits_since",
    )

    def __init__(self, method: str, context: Context, limit_s: float, may_read: asyncio.Event) -> None:
        now = time.monotonic()
        remaining = context.time_remaining()
        self.method = method
        self.context = context
        self.request_id = request_id_of(context)
        self.start = now
        # Read once: time_remaining follows the wall clock, which may jump.
        self.deadline = now + (limit_s if remaining is None else min(remaining, limit_s))
        self.peer: str = context.peer()
        # A client's connections and processes share one address; a unix socket is one address.
        self.address = self.peer.rpartition(":")[0]
        self.waits_since: float | None = now
        """Since when the server waits for the client to send or to fetch something."""
        self.has_begun = False
        """Whether the first message has come."""
        self.is_replying = False
        self.has_returned = False
        """Whether our code is done with it: gRPC still sends the reply."""
        self._may_read = may_read
        self._moved_bytes = 0
        self._task = asyncio.current_task()
        self._error: AclgradError | None = None
        self._ends: list[Callable[[], None]] = []
        self._has_ended = False

    async def read(self) -> bytes:
        """Returns the next message; raises MalformedRequestError if the client sends no more."""
        message = await self.read_or_end()
        if message is None:
            raise MalformedRequestError("the call ended before its message")
        return message

    async def read_or_end(self) -> bytes | None:
        """Returns the next message, or None if the client sends no more."""
        if self.waits_since is None:
            self.waits_since = time.monotonic()
        if not self._may_read.is_set():
            await self._may_read.wait()
        message = await self.context.read()
        return None if message is grpc.aio.EOF else message

    async def write(self, message: bytes) -> None:
        """Sends one message of a streamed reply."""
        self.is_replying = True
        if self.waits_since is None:
            self.waits_since = time.monotonic()
        await self.context.write(message)

    def moved(self, size_bytes: int) -> None:
        """Counts bytes received or sent: a client that moves `PROGRESS_BYTES` in time is not slow."""
        self._moved_bytes += size_bytes
        if self._moved_bytes >= PROGRESS_BYTES:
            self._moved_bytes = 0
            self.waits_since = time.monotonic()

    def works(self) -> None:
        """Marks the server's turn: time does not count against the client until the next read or write."""
        self.waits_since = None
        self.has_begun = True

    def at_end(self, function: Callable[[], None]) -> None:
        """Calls the function when the reply has left or the client has gone, or now if that has happened."""
        if self._has_ended:
            function()
        else:
            self._ends.append(function)

    def check_deadline(self) -> None:
        """Raises DeadlinePassedError if no time is left."""
        if time.monotonic() >= self.deadline:
            raise deadline_passed()

    def replies(self) -> None:
        """Marks that only the reply is left to be sent."""
        self.is_replying = self.has_returned = True
        self.waits_since = time.monotonic()

    def end(self) -> None:
        """Calls the functions that were given to `at_end`."""
        self._has_ended = True
        try:
            while self._ends:
                self._ends.pop()()
        finally:
            if self._ends:
                self.end()

    def cut(self, error: AclgradError) -> bool:
        """Ends the call with an error, wherever it waits; returns False if it has ended or was cut before."""
        if self._error is not None or self._has_ended or self._task is None:
            return False
        self._error = error
        self._task.cancel()
        return True

    def take_cut(self) -> AclgradError | None:
        """Returns why the call was cut; None if it was not, or if its client has gone."""
        if self._error is None or self._has_ended:
            return None
        if self._task is not None:
            self._task.uncancel()
        return self._error


class Calls:
    """All calls that have begun and whose reply has not left."""

    def __init__(
        self,
        call_timeout_s: float,
        client_timeout_s: float,
        close_connections: Callable[[set[str]], None] = lambda peers: None,
    ) -> None:
        """Takes what ends the connections of peers: gRPC goes on sending a reply whatever becomes of its call."""
        self._call_timeout_s = call_timeout_s
        self._client_timeout_s = client_timeout_s
        self._close_connections = close_connections
        self._active: dict[Call, None] = {}
        self._is_refusing = False
        self._is_short_of_memory = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.event_count = 0
        """How many calls have begun, and how many have ended, in all."""

    def begin(self, method: str, context: Context) -> Call:
        """Counts a new call until gRPC has sent its reply."""
        call = Call(method, context, self._call_timeout_s, self._may_read)
        self._active[call] = None
        self._idle.clear()
        self.event_count += 1
        context.add_done_callback(lambda _: self._end(call))
        return call

    def admit(self) -> None:
        """Raises the error with which every new call is refused, if there is one."""
        if self._is_refusing:
            raise _draining()
        if self._is_short_of_memory:
            raise short_of_memory()

    def any(self) -> bool:
        return bool(self._active)

    def refuse(self) -> None:
        """Refuses calls from now on, because the server stops, and those whose first message has not come."""
        self._is_refusing = True
        for call in self._active:
            if not call.has_begun:
                call.cut(_draining())

    def hold_reads(self, is_held: bool) -> None:
        """Receives no further message while this is set."""
        if is_held:
            self._may_read.clear()
        elif not self._may_read.is_set():
            self._may_read.set()

    def refuse_for_memory(self, is_short: bool) -> None:
        self._is_short_of_memory = is_short

    async def wait_until_none(self, timeout_s: float) -> bool:
        """Returns whether the last call ended in time."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def cut_oldest_unfinished(self, count: int) -> int:
        """Cuts the oldest calls that are still being received, to make room; returns how many."""
        unfinished = (call for call in self._active if call.waits_since is not None and not call.is_replying)
        return len([call for call in islice(unfinished, count) if call.cut(short_of_memory())])

    def sweep(self) -> None:
        """Cuts calls whose deadline has passed or whose client is too slow. To be called some times a second."""
        now = time.monotonic()
        latest = now - self._client_timeout_s
        unread = set()
        for call in self._active:
            if call.waits_since is not None and call.waits_since < latest:
                if call.cut(self._too_slow(call)) and call.is_replying:
                    unread.add(call.peer)
            elif call.deadline + _LATE_S < now and not call.has_returned:
                call.cut(deadline_passed())

        if unread:
            self._close_connections(unread)

    def _too_slow(self, call: Call) -> ClientTooSlowError:
        limit = f"{self._client_timeout_s:g} s (--client-timeout-s)"
        remedy = "send and receive faster, or raise --client-timeout-s (ACLGRAD_CLIENT_TIMEOUT_S) of the server"
        what = "fetched less than 1 MiB of the reply" if call.is_replying else "sent less than 1 MiB"
        return ClientTooSlowError(f"the client {what} within {limit}; {remedy}", remedy=remedy)

    def _end(self, call: Call) -> None:
        if call in self._active:
            del self._active[call]
            self.event_count += 1
            if not self._active:
                self._idle.set()
            call.end()


def _draining() -> ServerDrainingError:
    remedy = "try again, on another server if there is one"
    return ServerDrainingError(
        f"the server is shutting down; {remedy}", remedy=remedy, retry_after_s=RETRY_AFTER_DRAIN_S
    )


def deadline_passed() -> DeadlinePassedError:
    remedy = "allow more time, or call a server with less to do"
    return DeadlinePassedError(f"the deadline passed before the reply was made; {remedy}", remedy=remedy)


def short_of_memory() -> ServerBusyError:
    remedy = f"try again in {RETRY_AFTER_PRESSURE_S:g} s"
    return ServerBusyError(
        f"the server is short of memory; {remedy}", remedy=remedy, retry_after_s=RETRY_AFTER_PRESSURE_S
    )
