"""One RPC from its arrival until its reply has left, and all of them: counting, refusing and cutting them."""

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Mapping
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
from aclgrad.wire.request_ids import REQUEST_ID, is_request_id
from aclgrad_server.calls.trace import TRACEPARENT, trace_id_of
from aclgrad_server.limits import PROGRESS_BYTES
from aclgrad_server.log_forms import UNKNOWN
from aclgrad_server.statistics.calls import CANCELLED, PLAN, RECEIVE, REPLY, STAGES, CallStatistics, OperatorAndReason

RETRY_AFTER_DRAIN_S: Final = 1.0
RETRY_AFTER_PRESSURE_S: Final = 1.0
CANCELLATION_S: Final = 0.05  # for so long gRPC may take to cancel a call whose message it has refused
_LATE_S: Final = 0.25  # how long after a deadline a call is cut: until then the device reports it by itself
_PROCESS: Final = secrets.token_hex(8)  # makes our request ids differ from those of other servers
_numbers = itertools.count(1)
_NO_ITEMS: Final[Mapping[OperatorAndReason, int]] = {}

Context = Any  # grpc.aio.ServicerContext, whose stubs are generic and whose class is not


class Call:
    """One RPC of our service. `deadline` and `start` are times of `time.monotonic`."""

    def __init__(self, method: str, context: Context, limit_s: float, may_read: asyncio.Event) -> None:
        remaining = context.time_remaining()
        self.method = method
        self.context = context
        self.request_id, self.trace_id = _ids_of(context)
        self.start = self.stage_since = time.monotonic()
        self.stages_s = [0.0] * len(STAGES)
        """How long it has been in each of the `STAGES` before the current one."""
        self._stage = RECEIVE
        # Read once: time_remaining follows the wall clock, which may jump.
        self.deadline = self.start + (limit_s if remaining is None else min(remaining, limit_s))
        self.peer: str = context.peer()
        # A client's connections and processes share one address; a unix socket is one address.
        self.caller = self.peer.rpartition(":")[0]
        """Whom admission counts the call for: its address, or its identity if the server has identities."""
        self.identity = UNKNOWN
        self.sees_details = True
        self.operator = UNKNOWN
        self.received_bytes = self.sent_bytes = 0
        self.items = _NO_ITEMS
        """How many calls of a batch ended, by operator and reason."""
        self.outcome = CANCELLED
        self.waits_since: float | None = self.start
        """Since when the server waits for the client to send or to fetch something."""
        self.has_begun = False  # whether the first message has come
        self.is_cut_short = False  # whether the message that was due has not come
        self.is_replying = False
        self.has_returned = False  # whether our code is done with it: gRPC still sends the reply
        self.has_ended = False  # whether the reply has left or the client has gone
        self._may_read = may_read
        self._ahead: list[bytes | None] = []
        self._moved_bytes = 0
        self._task = asyncio.current_task()
        self._error: AclgradError | None = None
        self._ends: list[Callable[[], None]] = []

    def fields(self) -> dict[str, Any]:
        """Returns what the log says of the call in JSON."""
        names = ("request_id", "trace_id", "method", "operator", "identity", "peer")
        return {name: getattr(self, name) for name in names}

    async def read(self) -> bytes:
        """Returns the next message; raises MalformedRequestError if the client sends no more."""
        message = await self.read_or_end()
        if message is None:
            # gRPC says the same of a message over its limit and of a client that has gone, and then cancels the call.
            self.is_cut_short = True
            await asyncio.sleep(CANCELLATION_S)
            raise MalformedRequestError("the call ended before its message")
        return message

    async def read_or_end(self) -> bytes | None:
        """Returns the next message, or None if the client sends no more."""
        if self._ahead:
            return self._ahead.pop()
        self._waits(RECEIVE)
        if not self._may_read.is_set():
            await self._may_read.wait()
        message: Any = await self.context.read()
        if message is grpc.aio.EOF:
            return None
        read: bytes = message
        self.received_bytes += len(read)
        return read

    async def peek(self) -> None:
        """Waits for the next message, which the next read returns."""
        self._ahead.append(await self.read_or_end())

    async def write(self, message: bytes) -> None:
        """Sends one message of a streamed reply."""
        self.is_replying = True
        self._waits(REPLY)
        await self.context.write(message)
        self.sent_bytes += len(message)

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
        self.enter(PLAN)

    def enter(self, stage: int) -> None:
        """Ends the current stage and begins another one."""
        now = time.monotonic()
        self.stages_s[self._stage] += now - self.stage_since
        self._stage = stage
        self.stage_since = now

    def at_end(self, function: Callable[[], None]) -> None:
        """Calls the function when the reply has left or the client has gone, or now if that has happened."""
        if self.has_ended:
            function()
        else:
            self._ends.append(function)

    def check_deadline(self) -> None:
        """Raises DeadlinePassedError if no time is left."""
        if time.monotonic() >= self.deadline:
            raise _deadline_passed()

    def replies(self) -> None:
        """Marks that only the reply is left to be sent."""
        self.is_replying = self.has_returned = True
        self.enter(REPLY)
        self.waits_since = self.stage_since

    def end(self) -> None:
        """Calls the functions that were given to `at_end`."""
        self.has_ended = True
        try:
            while self._ends:
                self._ends.pop()()
        finally:
            if self._ends:
                self.end()

    def cut(self, error: AclgradError) -> bool:
        """Ends the call with an error, wherever it waits; returns False if it has ended or was cut before."""
        if self._error is not None or self.has_ended or self._task is None:
            return False
        self._error = error
        self._task.cancel()
        return True

    def take_cut(self) -> AclgradError | None:
        """Returns why the call was cut; None if it was not, or if its client has gone."""
        if self._error is None or self.has_ended:
            return None
        if self._task is not None:
            self._task.uncancel()
        return self._error

    def _waits(self, stage: int) -> None:
        if self.waits_since is None:
            self.enter(stage)
            self.waits_since = self.stage_since


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
        self.statistics = CallStatistics()
        self.draining_refusals = self.memory_refusals = self.slow_clients = self.memory_cuts = 0
        self._is_refusing = False
        self._is_short_of_memory = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.event_count = 0  # how many calls have begun, and how many have ended, in all

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
            self.draining_refusals += 1
            raise _draining()
        if self._is_short_of_memory:
            self.memory_refusals += 1
            raise _short_of_memory()

    def any(self) -> bool:
        return bool(self._active)

    @property
    def active_count(self) -> int:
        """How many RPCs have begun whose reply has not left; any thread may ask."""
        return len(self._active)

    def refuse(self) -> None:
        """Refuses calls from now on, because the server stops, and those whose first message has not come."""
        self._is_refusing = True
        for call in self._active:
            if not call.has_begun:
                self.draining_refusals += call.cut(_draining())

    def hold_reads(self, is_held: bool) -> None:
        """Receives no further message while this is set."""
        if is_held:
            self._may_read.clear()
        else:
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
        cut = sum(call.cut(_short_of_memory()) for call in islice(unfinished, count))
        self.memory_cuts += cut
        return cut

    def sweep(self) -> None:
        """Cuts calls whose deadline has passed or whose client is too slow. To be called some times a second."""
        now = time.monotonic()
        unread = set()
        for call in self._active:
            if call.waits_since is not None and call.waits_since < now - self._client_timeout_s:
                if call.cut(error := self._too_slow(call)):
                    self.slow_clients += 1
                    if call.is_replying:
                        unread.add(call.peer)
                        call.outcome = error.reason  # nothing else tells of a reply that is never fetched
            elif call.deadline + _LATE_S < now and not call.has_returned:
                call.cut(_deadline_passed())
        if unread:
            self._close_connections(unread)

    def _too_slow(self, call: Call) -> ClientTooSlowError:
        what = "fetched less than 1 MiB of the reply" if call.is_replying else "sent less than 1 MiB"
        return ClientTooSlowError(
            f"the client {what} within {self._client_timeout_s:g} s (--client-timeout-s)",
            remedy="send and receive faster, or raise --client-timeout-s (ACLGRAD_CLIENT_TIMEOUT_S) of the server",
        )

    def _end(self, call: Call) -> None:
        if call in self._active:
            del self._active[call]
            self.event_count += 1
            if not self._active:
                self._idle.set()
            call.enter(REPLY)
            call.end()
            self.statistics.add(call)


def _ids_of(context: Context) -> tuple[str, str]:
    """Returns the client's request id if it sent one that is fit to be logged, else a new one; and its trace id."""
    request_id, parents = "", []
    for key, value in context.invocation_metadata():
        if key == REQUEST_ID and not request_id and is_request_id(value):
            request_id = value
        elif key == TRACEPARENT:
            parents.append(value)
    return request_id or f"{_PROCESS}-{next(_numbers)}", trace_id_of(parents)


def _draining() -> ServerDrainingError:
    remedy = "try again, on another server if there is one"
    return ServerDrainingError("the server is shutting down", remedy=remedy, retry_after_s=RETRY_AFTER_DRAIN_S)


def _deadline_passed() -> DeadlinePassedError:
    remedy = "allow more time, or call a server with less to do"
    return DeadlinePassedError("the deadline passed before the reply was made", remedy=remedy)


def _short_of_memory() -> ServerBusyError:
    remedy = f"try again in {RETRY_AFTER_PRESSURE_S:g} s"
    return ServerBusyError("the server is short of memory", remedy=remedy, retry_after_s=RETRY_AFTER_PRESSURE_S)
