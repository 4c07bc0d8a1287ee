"""What surrounds every call of our service: a request id, one log line, and errors as statuses."""

from __future__ import annotations  # grpc's classes are generic in their stubs alone

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from aclgrad.errors import AclgradError, DeviceMemoryError, ServerFaultError, to_status
from aclgrad_server.active_calls import ActiveCalls
from aclgrad_server.pooled import Pooled
from aclgrad_server.request_id import REQUEST_ID, current_request_id, request_id_of

log = logging.getLogger(__name__)

MAX_LOGGED: Final = 1000
STATUS_DETAILS: Final = "grpc-status-details-bin"


class CallInterceptor(grpc.ServerInterceptor):
    """Wraps the methods of one service, unary and bidirectional, and counts their calls."""

    def __init__(self, service: str, calls: ActiveCalls) -> None:
        self._prefix = f"/{service}/"
        self._calls = calls

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or not method.startswith(self._prefix):
            return handler
        name = method.removeprefix(self._prefix)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(self._unary(name, handler.unary_unary))
        if isinstance(handler.stream_stream, Pooled):
            stream = self._stream(name, handler.stream_stream)
            return grpc.stream_stream_rpc_method_handler(Pooled(stream, handler.stream_stream.experimental_thread_pool))
        return handler

    def _unary(self, method: str, behaviour: Callable[[bytes, grpc.ServicerContext], bytes]) -> Any:
        def call(request: bytes, context: grpc.ServicerContext) -> bytes:
            with self._surround(method, context):
                return behaviour(request, context)

        return call

    def _stream(
        self, method: str, behaviour: Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]
    ) -> Any:
        def call(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            with self._surround(method, context):
                yield from behaviour(messages, context)

        return call

    @contextmanager
    def _surround(self, method: str, context: grpc.ServicerContext) -> Iterator[None]:
        """Counts and logs the call of the block, and ends it with a status where the block raises."""
        start = time.monotonic()
        request_id = request_id_of(context)
        current_request_id.set(request_id)
        self._calls.enter_handler()
        try:
            self._calls.enter(context)
            yield
        except Exception as error:
            if not context.is_active() and not isinstance(error, AclgradError):
                log.info("%s %s was given up by the client", request_id, method)
                return
            ours = _as_ours(error, request_id)
            _log_failure(method, request_id, ours, error)
            status = to_status(ours, request_id)
            details = (STATUS_DETAILS, status.SerializeToString())
            context.set_trailing_metadata(((REQUEST_ID, request_id), details))
            code = ours.code
            # A frame that holds the error which holds the frame, and so what the call has on the device, would stay
            # until the garbage collector comes.
            del ours
            # Not inside the try: abort itself raises, and that is no failure of the call.
        else:
            context.set_trailing_metadata(((REQUEST_ID, request_id),))
            log.debug("%s %s ok in %.1f ms", request_id, method, (time.monotonic() - start) * 1e3)
            return
        finally:
            self._calls.leave_handler()
        context.abort(code, status.message)


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
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    log.info("%s %s %s: %s%s", request_id, method, ours.code.name, ours.message[:MAX_LOGGED], cause[:MAX_LOGGED])
