"""One RPC from its arrival until its reply has left."""

import asyncio
import itertools
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import grpc.aio

from aclgrad.errors import AclgradError, DeadlinePassedError, MalformedRequestError, ServerBusyError
from aclgrad.wire.service import REQUEST_ID, is_request_id
from aclgrad_server.limits import PROGRESS_BYTES
from aclgrad_server.logs import UNKNOWN
from aclgrad_server.statistics import CANCELLED, PLAN, RECEIVE, REPLY, STAGES, OperatorAndReason

TRACEPARENT: Final = "traceparent"
_TRACE: Final = re.compile(
    # https://www.w3.org/TR/trace-context/: there is no version ff. A value of version 00 ends with the flags; later
    # versions may add fields.
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
CANCELLATION_S: Final = 0.05  # gRPC may take this long to cancel a call whose message it has refused
_PROCESS: Final = secrets.token_hex(8)  # makes our request ids differ from those of other servers
_numbers = itertools.count(1)
_NO_ITEMS: Final[Mapping[OperatorAndReason, int]] = {}

UNIX: Final = "unix"
"""Prefix of peers on unix sockets. The client chooses the rest, so nothing may depend on it."""

Context = Any  # grpc.aio.ServicerContext, whose stubs are generic and whose class is not


class Call:
    """One RPC of our service. `deadline` and `start` are times of `time.monotonic`."""

    # Defaults; an instance sets only those that change.
    identity = UNKNOWN
    sees_details = True
    operator = UNKNOWN
    received_bytes = 0
    sent_bytes = 0
    items = _NO_ITEMS
    """How many steps of a program ended, by operator and reason."""
    step_count = 1
    work_s = 0.0
    """About how long the device takes, by the program's work."""
    outcome = CANCELLED
    stage = RECEIVE
    has_begun = False  # whether the first message has come
    is_cut_short = False  # whether a message that was due is missing
    has_returned = False  # whether our code is done with it; gRPC still sends the reply
    has_ended = False  # whether the reply has left or the client has gone
    abort: Callable[["Call", AclgradError], Coroutine[Any, Any, Any]] | None = None
    """Sends the client the error, which also ends the reader of its messages."""
    _ahead: list[bytes | None] | None = None
    _moved_bytes = 0
    _is_reading = False
    _ending: asyncio.Task[Any] | None = None
    _error: AclgradError | None = None

    def __init__(self, method: str, context: Context, limit_s: float, may_read: asyncio.Event) -> None:
        remaining = context.time_remaining()
        self.method = method
        self.context = context
        metadata = context.invocation_metadata()
        ids = [value for key, value in metadata if key == REQUEST_ID and is_request_id(value)]
        self.request_id: str = ids[0] if ids else f"{_PROCESS}-{next(_numbers)}"
        self.trace_id = trace_id_of([value for key, value in metadata if key == TRACEPARENT])
        self.start = self.stage_since = now = time.monotonic()
        self.stages_s = [0.0] * len(STAGES)
        """How long it has been in each of the `STAGES` before the current one."""
        # Read once: time_remaining follows the wall clock, which may jump.
        self.deadline = now + (limit_s if remaining is None else min(remaining, limit_s))
        self.peer: str = context.peer()
        self.caller = self.address = address_of(self.peer)
        """The caller in admission: the identity if the server has identities, else the address."""
        self.waits_since: float | None = now
        """Since when the server has waited for the client to send or fetch something; None if it does not."""
        self._may_read = may_read
        self._task = asyncio.current_task()
        self._ends: list[Callable[[], None]] = []

    def fields(self) -> dict[str, Any]:
        """Returns the call's fields of JSON log lines."""
        names = ("request_id", "trace_id", "method", "operator", "identity", "peer")
        told = {name: getattr(self, name) for name in names}
        return told | {"steps": self.step_count} if self.step_count > 1 else told

    async def read(self) -> bytes:
        """Returns the next message; raises MalformedRequestError if there is none."""
        message = await self.read_or_end()
        if message is None:
            await self.cut_short()
            raise MalformedRequestError("the call ended before its message")
        return message

    async def cut_short(self) -> None:
        """Waits for the cancellation of a call that lacks a message.

        gRPC ends the stream in the same way if the client has sent all, has gone, or sent a message over gRPC's limit,
        and cancels the call afterwards in the last two cases.
        """
        self.is_cut_short = True
        await asyncio.sleep(CANCELLATION_S)

    async def read_or_end(self) -> bytes | None:
        """Returns the next message, or None if the client sends no more."""
        self._waits(RECEIVE)
        if self._ahead:
            return self._ahead.pop()
        if not self._may_read.is_set():
            await self._may_read.wait()
        self._is_reading = True
        try:
            read = await self.context.read()
        finally:
            self._is_reading = False
        if self._ending is not None:
            await self._ending
        if read is grpc.aio.EOF:
            return None
        self.received_bytes += len(read)
        whole: bytes = read
        return whole

    async def peek(self) -> None:
        self._ahead = [await self.read_or_end()]

    async def write(self, message: bytes) -> None:
        self._waits(REPLY)
        await self.context.write(message)
        self.sent_bytes += len(message)

    def moved(self, size_bytes: int) -> None:
        """Counts bytes received or sent; a client that transfers `PROGRESS_BYTES` in time is not slow."""
        self._moved_bytes += size_bytes
        if self._moved_bytes >= PROGRESS_BYTES:
            self._moved_bytes = 0
            self.waits_since = time.monotonic()

    @property
    def is_reading(self) -> bool:
        return self._is_reading

    def works(self) -> None:
        """Marks the server's turn: time does not count against the client until the next read or write."""
        self.waits_since = None
        self.has_begun = True
        self.enter(PLAN)

    def enter(self, stage: int) -> None:
        now = time.monotonic()
        self.stages_s[self.stage] += now - self.stage_since
        self.stage = stage
        self.stage_since = now

    def at_end(self, function: Callable[[], None]) -> None:
        """Calls the function when the reply has left or the client has gone, at once if it already has."""
        if self.has_ended:
            function()
        else:
            self._ends.append(function)

    def check_deadline(self) -> None:
        if time.monotonic() >= self.deadline:
            raise deadline_passed()

    def replies(self) -> None:
        self.has_returned = True
        self.enter(REPLY)
        self.waits_since = self.stage_since

    def end(self) -> None:
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
        if self._is_reading and self.abort is not None:
            # Not cancelled: gRPC would never free a message that arrives for a cancelled reader.
            self._ending = asyncio.ensure_future(self.abort(self, error))
            self._ending.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        else:
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


def address_of(peer: str) -> str:
    """Returns the address of a peer without its port; all clients of unix sockets share one."""
    return UNIX if peer.startswith(UNIX) else peer.rpartition(":")[0]


def trace_id_of(values: Sequence[Any]) -> str:
    """Returns the trace id of a call with these values of `traceparent`; UNKNOWN without exactly one valid value."""
    match = _TRACE.fullmatch(values[0]) if len(values) == 1 and isinstance(values[0], str) else None
    return match[1] if match else UNKNOWN


def deadline_passed() -> DeadlinePassedError:
    remedy = "allow more time, or call a server with less to do"
    return DeadlinePassedError("the deadline passed before the reply was made", remedy=remedy)


def busy(problem: str, retry_after_s: float, also: str = "", limit: int | None = None) -> ServerBusyError:
    """Returns the error of a call that can be retried after this time; `also` is another remedy."""
    remedy = f"try again in {retry_after_s:g} s{also}"
    metadata = None if limit is None else {"limit": str(limit)}
    return ServerBusyError(problem, remedy=remedy, retry_after_s=retry_after_s, metadata=metadata)
