"""`grpc.health.v1` for gRPC clients, and reflection. Silent clients of both are cut off."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from aclgrad.errors import AccessDeniedError, RequestError
from aclgrad_server.access.access import Access
from aclgrad_server.calls.call import Context
from aclgrad_server.calls.decompression import decompressed_small
from aclgrad_server.limits import MAX_HEALTH_BYTES, MAX_SIDE_CALLS
from aclgrad_server.services.operators import SERVICE

LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
_STATUS: Final = health_pb2.HealthCheckResponse


class _Room:
    """Room for a number of calls. One more ends the oldest, so that calls which stay open keep nobody out."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    @asynccontextmanager
    async def call(self, context: Context) -> AsyncIterator[None]:
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
    """Tells whether the process lives (`liveness`) and takes calls (`readiness`, our service, the empty name).

    The id of the host is a name too, by which clients know its workers from others at their addresses.

    gRPC's own servicer takes any name and size, and lets one watch that is not read hold up all others.
    """

    def __init__(self, client_timeout_s: float, host_id: str) -> None:
        self._client_timeout_s = client_timeout_s
        self._names = frozenset((LIVENESS, READINESS, SERVICE, "", host_id))
        self._room = _Room()
        self._is_alive, self._is_ready = True, False
        self._changed = asyncio.Event()
        self._watch_count = 0

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told of the next change."""
        return self._watch_count > 0

    def set_dead(self) -> None:
        """Tells for good that the process has to be restarted."""
        self._is_alive = False
        self.set_ready(False)

    def set_ready(self, is_ready: bool) -> None:
        self._is_ready = is_ready
        self._changed.set()
        self._changed = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Any] = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch),
        }
        return grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods)

    async def _check(self, _: object, context: Context) -> bytes:
        async with self._room.call(context):
            status = self._status_of(await self._service(context))
        if status == _STATUS.SERVICE_UNKNOWN:
            names = f"ask for {LIVENESS}, {READINESS}, {SERVICE} or the empty name"
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this health service does not know the name; {names}")
        reply: bytes = _STATUS(status=status).SerializeToString()
        return reply

    async def _watch(self, _: object, context: Context) -> None:
        async with self._room.call(context):
            service = await self._service(context)
            last = None
            self._watch_count += 1
            try:
                while True:
                    changed = self._changed
                    status = self._status_of(service)
                    if status != last:
                        await context.write(_STATUS(status=status).SerializeToString())
                        last = status
                    await changed.wait()
            finally:
                self._watch_count -= 1

    def _status_of(self, service: str) -> "health_pb2.HealthCheckResponse.ServingStatus.ValueType":
        if service not in self._names:
            return _STATUS.SERVICE_UNKNOWN
        is_well = self._is_alive and (self._is_ready or service == LIVENESS)
        return _STATUS.SERVING if is_well else _STATUS.NOT_SERVING

    async def _service(self, context: Context) -> str:
        """Returns the name that a client asks for; ends a call whose message is missing, too large or too late."""
        code, problem = grpc.StatusCode.INVALID_ARGUMENT, "the message is not a HealthCheckRequest"
        try:
            async with asyncio.timeout(self._client_timeout_s):
                message: Any = await context.read()
            if message is not grpc.aio.EOF:
                content = decompressed_small(message, MAX_HEALTH_BYTES)
                if len(content) <= MAX_HEALTH_BYTES:
                    service: str = health_pb2.HealthCheckRequest.FromString(content).service
                    return service
            problem = f"send one HealthCheckRequest of at most {MAX_HEALTH_BYTES} bytes"
        except TimeoutError:
            code, problem = _too_slow(self._client_timeout_s)
        except RequestError as error:
            problem = error.message
        except DecodeError:
            pass
        await context.abort(code, problem)
        raise AssertionError("abort raises")


class _NotARequestError(Exception):
    """A message that cannot be read."""


class _Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    def __init__(self, client_timeout_s: float, access: Access | None) -> None:
        super().__init__((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME))
        self._client_timeout_s = client_timeout_s
        self._access = access
        self._room = _Room()

    async def ServerReflectionInfo(self, requests: AsyncIterable[Any], context: Context) -> AsyncIterator[Any]:  # noqa: N802
        try:
            if self._access is not None:
                self._access.check(context, "ServerReflectionInfo", context.peer())
            async with self._room.call(context):
                async for reply in super().ServerReflectionInfo(self._in_time(aiter(requests)), context):
                    yield reply
        except TimeoutError:
            await context.abort(*_too_slow(self._client_timeout_s))
        except _NotARequestError:
            problem = "the message is not a ServerReflectionRequest"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        except AccessDeniedError as error:
            await context.abort(error.code, error.message)

    async def _in_time(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        while True:
            async with asyncio.timeout(self._client_timeout_s):
                request = await anext(requests, None)
            if request is None:
                return
            try:
                yield reflection_pb2.ServerReflectionRequest.FromString(decompressed_small(request))
            except (RequestError, DecodeError):
                raise _NotARequestError from None


def add_reflection(server: grpc.aio.Server, client_timeout_s: float, access: Access | None = None) -> None:
    """Lets tools such as grpcurl discover the services, for those who may execute operators."""
    handler: Any = grpc.stream_stream_rpc_method_handler(
        _Reflection(client_timeout_s, access).ServerReflectionInfo,
        None,  # read by the servicer: gRPC would log what is wrong with a message, and tell it to the client
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    methods = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, methods),))


def _too_slow(limit_s: float) -> tuple[grpc.StatusCode, str]:
    return grpc.StatusCode.DEADLINE_EXCEEDED, f"no request within {limit_s:g} s (--client-timeout-s); send it sooner"
