"""What surrounds every call of our service: a request id, one log line, and errors as statuses."""

from __future__ import annotations  # grpc's classes are generic in their stubs alone

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import grpc

from aclgrad.errors import AclgradError, DeviceMemoryError, MalformedRequestError, ServerFaultError, to_status
from aclgrad_server.active_calls import ActiveCalls
from aclgrad_server.client_waits import ClientWaits
from aclgrad_server.logs import line_of
from aclgrad_server.pooled import Pooled
from aclgrad_server.request_id import REQUEST_ID, current_request_id, request_id_of

if TYPE_CHECKING:
    _Handler = grpc.RpcMethodHandler[Any, Any]

log = logging.getLogger(__name__)

STATUS_DETAILS: Final = "grpc-status-details-bin"


class CallInterceptor(grpc.ServerInterceptor):
    """Wraps the methods of one service, unary and bidirectional, counts their calls, and bounds what clients take."""

    def __init__(self, service: str, calls: ActiveCalls, waits: ClientWaits) -> None:
        self._prefix = f"/{service}/"
        self._calls = calls
        self._waits = waits
        self._wrapped: dict[str, tuple[_Handler, _Handler]] = {}

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], _Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or not method.startswith(self._prefix):
            return handler
        known, wrapped = self._wrapped.get(method, (None, None))
        if wrapped is None or known is not handler:
            wrapped = self._wrap(method.removeprefix(self._prefix), handler)
            self._wrapped[method] = handler, wrapped
        return wrapped

    def _wrap(self, method: str, handler: _Handler) -> _Handler:
        if handler.unary_unary is not None:
            call = self._waits.bounded(self._unary(method, handler.unary_unary))
            return grpc.stream_unary_rpc_method_handler(call)
        if isinstance(handler.stream_stream, Pooled):
            stream = self._stream(method, handler.stream_stream)
            return grpc.stream_stream_rpc_method_handler(Pooled(stream, handler.stream_stream.experimental_thread_pool))
        return handler

    def _unary(self, method: str, behaviour: Callable[[bytes, grpc.ServicerContext], bytes]) -> Any:
        def call(request: bytes | None, context: grpc.ServicerContext) -> bytes:
            with _Surrounded(method, context, self._calls):
                self._calls.enter(context)
                if request is None:
                    raise MalformedRequestError("the call ended before its message")
                return behaviour(request, context)
            return b""  # the client has given up: nobody reads it

        return call

    def _stream(
        self, method: str, behaviour: Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]
    ) -> Any:
        def call(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            with _Surrounded(method, context, self._calls):
                self._calls.enter(context)
                yield from behaviour(messages, context)

        return call


class _Surrounded:
    """Logs the call of the block, counts its handler, and ends it with a status where the block raises."""

    __slots__ = ("_calls", "_context", "_method", "_request_id", "_start")

    def __init__(self, method: str, context: grpc.ServicerContext, calls: ActiveCalls) -> None:
        self._method = method
        self._context = context
        self._calls = calls
        self._start = time.monotonic()
        self._request_id = request_id_of(context)

    def __enter__(self) -> None:
        current_request_id.set(self._request_id)
        self._calls.enter_handler()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        try:
            return self._end(error)
        finally:
            self._calls.leave_handler()

    def _end(self, error: BaseException | None) -> bool:
        """Returns True where the error needs no answer; raises in grpc's way where it is answered."""
        context, method, request_id = self._context, self._method, self._request_id
        if error is None:
            context.set_trailing_metadata(((REQUEST_ID, request_id),))
            log.debug("%s %s ok in %.1f ms", request_id, method, (time.monotonic() - self._start) * 1e3)
            return False
        if not isinstance(error, Exception):
            return False
        if not context.is_active() and not isinstance(error, AclgradError):
            log.info("%s %s was given up by the client", request_id, method)
            return True
        ours = _as_ours(error, request_id)
        _log_failure(method, request_id, ours, error)
        status = to_status(ours, request_id)
        details = (STATUS_DETAILS, status.SerializeToString())
        context.set_trailing_metadata(((REQUEST_ID, request_id), details))
        context.abort(ours.code, status.message)
        raise AssertionError("abort has raised")


def _as_ours(error: Exception, request_id: str) -> AclgradError:
    if isinstance(error, AclgradError):
        return error
    if isinstance(error, MemoryError):
        remedy = "try again later, or send a smaller tensor"
        return DeviceMemoryError(f"the server has not enough memory; {remedy}", remedy=remedy, retry_after_s=1.0)
    return ServerFaultError(f"the server failed unexpectedly; report request id {request_id}")


def _log_failure(method: str, request_id: str, ours: AclgradError, error: Exception) -> None:
    if isinstance(ours, ServerFaultError):
        log.error("%s %s failed", request_id, method, exc_info=error)
        return
    log.info("%s %s %s", request_id, method, line_of(ours))
