"""The frame of every call: one log line for each failure, and errors as statuses."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import grpc.aio

from aclgrad.errors import (
    AccessDeniedError,
    AclgradError,
    NotAuthenticatedError,
    ServerBusyError,
    ServerFaultError,
    to_status,
)
from aclgrad.wire.service import REQUEST_ID, SERVER
from aclgrad_server.access.access import Access
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call, Context
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.limits import CANCELLED_BYTES, SMALL_BYTES
from aclgrad_server.logs import fields, line_of
from aclgrad_server.services.load_report import LoadReport
from aclgrad_server.statistics import OPERATOR_METHODS

log = logging.getLogger(__name__)

STATUS_DETAILS: Final = "grpc-status-details-bin"

Unary = Callable[[bytes, Call], Awaitable[bytes]]
Stream = Callable[[Call], Awaitable[None]]
Result = TypeVar("Result", bound=bytes | None)
Status = tuple[grpc.StatusCode, str, tuple[tuple[str, str | bytes], ...]]
"""The status that ends a call: code, message and trailers."""


class Handlers:
    """Makes gRPC handlers from coroutines that take a call and return or send bytes."""

    def __init__(
        self,
        calls: OpenCalls,
        admission: Admission,
        access: Access | None = None,
        load_report: LoadReport | None = None,
        server_name: str | None = None,
    ) -> None:
        """Without `access`, everybody may call.

        Replies to operator calls carry the load report; replies and errors carry the server's name.
        """
        self._calls = calls
        self._admission = admission
        self._access = access
        self._load_report = load_report
        self._name = () if server_name is None else ((SERVER, server_name),)

    def unary(self, method: str, behaviour: Unary) -> Any:
        """Returns the handler of a method with one request and one reply.

        It is registered as a stream, because gRPC would wait for a unary message without a limit.
        """

        async def reply(call: Call) -> bytes:
            if (delay_s := self._admission.receive_delay_s(call.caller)) > 0:
                # Not counted as the client's slowness: its address has used up its share of the event loop.
                call.waits_since = None
                await asyncio.sleep(delay_s)
            begin = time.monotonic()
            try:
                message = await call.read()
            except (asyncio.CancelledError, grpc.aio.AbortError):
                self._admission.received(call.caller, CANCELLED_BYTES)
                raise
            if len(message) > SMALL_BYTES:
                self._admission.received(call.caller, len(message), time.monotonic() - begin)
            call.works()
            return await behaviour(message, call)

        async def serve(_: object, context: Context) -> bytes:
            return await self._run(method, context, reply)

        return grpc.stream_unary_rpc_method_handler(serve)

    def stream(self, method: str, behaviour: Stream) -> Any:
        """Returns the handler of a method that reads and writes its own messages."""

        async def serve(_: object, context: Context) -> None:
            await self._run(method, context, behaviour)

        return grpc.stream_stream_rpc_method_handler(serve)

    def _trailers(self, call: Call) -> tuple[tuple[str, str | bytes], ...]:
        request_id = (REQUEST_ID, call.request_id)
        if self._load_report is None or call.method not in OPERATOR_METHODS:
            return (request_id,)
        return request_id, self._load_report.trailer, *self._name

    async def _run(self, method: str, context: Context, behaviour: Callable[[Call], Awaitable[Result]]) -> Result:
        call = self._calls.begin(method, context)
        call.abort = self._cut
        try:
            self._calls.admit(call)
            if self._access is not None:
                await _identify(self._access, call)
            result = await behaviour(call)
            call.replies()
            call.outcome = "OK"
            if result is not None:
                call.sent_bytes = len(result)
            context.set_trailing_metadata(self._trailers(call))
            if log.isEnabledFor(logging.DEBUG):
                _tell(call, logging.DEBUG, f"ok in {_milliseconds(call):.1f} ms")
            return result
        except grpc.aio.AbortError:
            raise  # the call was cut while it was read, and its client has the error
        except BaseException as error:
            status = _explain(call, error)
            if status is None and not isinstance(error, grpc.aio.InternalError):
                raise
        # Not in the except clause: gRPC keeps the exception that `abort` raises. It would keep this one, and so the
        # call's messages and tensors, until the next garbage collection.
        if status is not None:
            await self._abort(call, status)
        # gRPC could not send: the client has gone. gRPC would log any other exception and try to answer.
        raise asyncio.CancelledError

    async def _abort(self, call: Call, status: Status) -> None:
        """Raises AbortError, unless the client has gone."""
        code, text, trailers = status
        call.replies()
        with suppress(grpc.aio.InternalError):
            await call.context.abort(code, text, (*trailers, *self._name))

    async def _cut(self, call: Call, error: AclgradError) -> None:
        """Ends a call from another task."""
        if (status := _explain(call, error)) is not None:
            await self._abort(call, status)


async def _identify(access: Access, call: Call) -> None:
    try:
        access.admit(call)
    except NotAuthenticatedError:
        await access.slow_down(call.peer)
        raise


def _explain(call: Call, error: BaseException) -> Status | None:
    """Logs an error and returns the status for the client; None if the client has gone."""
    if isinstance(error, asyncio.CancelledError):
        cut = call.take_cut()
        if cut is None:
            why = "was cancelled"
            if call.is_cut_short:
                why = "ended (its message exceeds --max-message-bytes or is compressed, or its client has gone)"
            # A call without a message loses nothing, and a client can make and end many thousands a second.
            level = logging.INFO if call.has_begun or call.is_cut_short else logging.DEBUG
            _tell(call, level, why)
            return None
        error = cut
    if isinstance(error, grpc.aio.InternalError):
        _tell(call, logging.INFO, "ended (its client has gone)")
        return None
    if not isinstance(error, Exception):
        return None
    ours = _as_ours(error, call.request_id)
    call.outcome = ours.reason
    if ours.operator is not None:
        call.operator = ours.operator
    level = logging.ERROR if isinstance(ours, ServerFaultError) else logging.INFO
    if isinstance(ours, AccessDeniedError):
        level = logging.DEBUG  # the audit has it
    what = f"{ours.reason} in {_milliseconds(call):.1f} ms"
    _tell(call, level, what, f": {line_of(ours)}", error if level == logging.ERROR else None)
    status = to_status(ours, call.request_id)
    trailer = ((REQUEST_ID, call.request_id), (STATUS_DETAILS, status.SerializeToString()))
    return ours.code, status.message, trailer


def _as_ours(error: Exception, request_id: str) -> AclgradError:
    if isinstance(error, AclgradError):
        return error
    if isinstance(error, MemoryError):
        remedy = "try again later, or send a smaller tensor"
        return ServerBusyError("the server has not enough memory", remedy=remedy, retry_after_s=1.0)
    return ServerFaultError(f"the server failed unexpectedly; report request id {request_id}")


def _tell(call: Call, level: int, what: str, text: str = "", error: Exception | None = None) -> None:
    told = fields(call.fields() | {"reason": call.outcome, "milliseconds": round(_milliseconds(call), 1)})
    steps = f" of {call.step_count} steps" if call.step_count > 1 else ""
    words = call.request_id, call.method, steps, what, call.peer, call.trace_id, text
    log.log(level, "%s %s%s %s for %s, trace %s%s", *words, exc_info=error, extra=told)


def _milliseconds(call: Call) -> float:
    return (time.monotonic() - call.start) * 1e3
