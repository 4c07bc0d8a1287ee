"""`grpc.health.v1` for gRPC clients, and reflection. Silent clients of both are cut off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from aclgrad.errors import AccessDeniedError
from aclgrad.wire.service import SERVICE_NAME
from aclgrad_server.calls.call import Context
from aclgrad_server.limits import MAX_HEALTH_BYTES, MAX_SIDE_CALLS, SMALL_BYTES
from aclgrad_server.server_view import ServerView

LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
_STATUS: Final = health_pb2.HealthCheckResponse


class _SideCalls:
    """The open calls of health or reflection. A call too many ends the oldest, so that nobody is locked out."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    @asynccontextmanager
    async def entered(self, context: Context) -> AsyncIterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        if len(self._tasks) > MAX_SIDE_CALLS:
            oldest = next(iter(self._tasks))
            del self._tasks[oldest]
            oldest.cancel()
        try:
            yield
        except asyncio.CancelledError:
            if task in self._tasks:
                raise  # by the client
            task.uncancel()
            problem = f"more than {MAX_SIDE_CALLS} calls of health or reflection are open; this one was the oldest"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)
        finally:
            self._tasks.pop(task, None)


class Health:
    """Reports whether the process lives (`liveness`) and takes calls (`readiness`, our service, the empty name).

    The host's id is a service name, too: clients recognise the host's workers by it.

    gRPC's own servicer takes any name and size, and one unread watch delays all others.
    """

    def __init__(self, view: ServerView) -> None:
        self._view = view
        self._names = frozenset((LIVENESS, READINESS, SERVICE_NAME, "", view.host_id))
        self._side_calls = _SideCalls()

    def handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Any] = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch),
        }
        return grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods)

    async def _check(self, _: object, context: Context) -> bytes:
        async with self._side_calls.entered(context):
            status = self._status_of(await self._service(context))
        if status == _STATUS.SERVICE_UNKNOWN:
            names = f"ask for {LIVENESS}, {READINESS}, {SERVICE_NAME} or the empty name"
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this health service does not know the name; {names}")
        reply: bytes = _STATUS(status=status).SerializeToString()
        return reply

    async def _watch(self, _: object, context: Context) -> None:
        async with self._side_calls.entered(context):
            service, readiness = await self._service(context), self._view.readiness
            last = None
            readiness.watch_count += 1
            try:
                while True:
                    changed = readiness.changed
                    status = self._status_of(service)
                    if status != last:
                        await context.write(_STATUS(status=status).SerializeToString())
                        last = status
                    await changed.wait()
            finally:
                readiness.watch_count -= 1

    def _status_of(self, service: str) -> "health_pb2.HealthCheckResponse.ServingStatus.ValueType":
        if service not in self._names:
            return _STATUS.SERVICE_UNKNOWN
        is_ready = self._view.readiness.reason is None
        is_well = self._view.heartbeat.end is None and (is_ready or service == LIVENESS)
        return _STATUS.SERVING if is_well else _STATUS.NOT_SERVING

    async def _service(self, context: Context) -> str:
        request = await _read(context, health_pb2.HealthCheckRequest, MAX_HEALTH_BYTES, self._view)
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "send one HealthCheckRequest")
        service: str = request.service
        return service


def add_reflection(server: grpc.aio.Server, view: ServerView) -> None:
    """Lets tools such as grpcurl discover the services, if the caller may execute operators."""
    servicer = reflection.aio.ReflectionServicer((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME))
    side_calls = _SideCalls()

    async def requests(context: Context) -> AsyncIterator[Any]:
        kind = reflection_pb2.ServerReflectionRequest
        while (request := await _read(context, kind, SMALL_BYTES, view)) is not None:
            yield request

    async def reflect(_: object, context: Context) -> None:
        try:
            if view.access is not None:
                view.access.check(context, "ServerReflectionInfo", context.peer())
        except AccessDeniedError as error:
            await context.abort(error.code, error.message)
        async with side_calls.entered(context):
            async for reply in servicer.ServerReflectionInfo(requests(context), context):
                await context.write(reply.SerializeToString())

    methods: dict[str, Any] = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(reflect)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, methods),))


async def _read(context: Context, kind: Any, limit_bytes: int, view: ServerView) -> Any:
    """Returns the next message, or None at the end; ends a call whose message is late, too large or malformed.

    gRPC itself would log the fault of a message and send it to the client.
    """
    limit_s = view.settings.client_timeout_s
    code, problem = grpc.StatusCode.INVALID_ARGUMENT, f"the message is not a {kind.DESCRIPTOR.name}"
    # In a task that goes on: gRPC would never free a message that arrives for a cancelled reader.
    reading = asyncio.ensure_future(context.read())
    reading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        message: Any = await asyncio.wait_for(asyncio.shield(reading), limit_s)
        if message is grpc.aio.EOF:
            return None
        if len(message) <= limit_bytes:
            return kind.FromString(message)
        problem = f"send a {kind.DESCRIPTOR.name} of at most {limit_bytes} bytes"
    except TimeoutError:
        code = grpc.StatusCode.DEADLINE_EXCEEDED
        problem = f"no request within {limit_s:g} s (--client-timeout-s); send it sooner"
    except DecodeError:
        pass
    await context.abort(code, problem)
    raise AssertionError("abort raises")
