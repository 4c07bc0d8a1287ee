"""`grpc.health.v1` for gRPC clients, and reflection."""

import asyncio
from typing import Any, Final

import grpc.aio
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection

from aclgrad_server.calls.call import Context
from aclgrad_server.limits import MAX_HEALTH_BYTES
from aclgrad_server.services.operators import SERVICE

LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
_STATUS: Final = health_pb2.HealthCheckResponse


class Health:
    """Tells whether the process lives (`liveness`) and takes calls (`readiness`, our service, the empty name).

    It knows just these names, so that nothing is kept of the names that clients send.
    """

    def __init__(self) -> None:
        self._is_ready = False
        self._changed = asyncio.Event()

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
        status = self._status_of(await _service(context))
        if status == _STATUS.SERVICE_UNKNOWN:
            names = f"ask for {LIVENESS}, {READINESS}, {SERVICE} or the empty name"
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this health service does not know the name; {names}")
        reply: bytes = _STATUS(status=status).SerializeToString()
        return reply

    async def _watch(self, _: object, context: Context) -> None:
        service = await _service(context)
        last = None
        while True:
            changed = self._changed
            status = self._status_of(service)
            if status != last:
                await context.write(_STATUS(status=status).SerializeToString())
                last = status
            await changed.wait()

    def _status_of(self, service: str) -> "health_pb2.HealthCheckResponse.ServingStatus.ValueType":
        if service == LIVENESS:
            return _STATUS.SERVING
        if service not in (READINESS, SERVICE, ""):
            return _STATUS.SERVICE_UNKNOWN
        return _STATUS.SERVING if self._is_ready else _STATUS.NOT_SERVING


async def _service(context: Context) -> str:
    """Returns the name that a client asks for, and ends a call that asks for none or for too much."""
    message: Any = await context.read()
    if message is grpc.aio.EOF or len(message) > MAX_HEALTH_BYTES:
        problem = f"send one HealthCheckRequest of at most {MAX_HEALTH_BYTES} bytes"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
    try:
        service: str = health_pb2.HealthCheckRequest.FromString(message).service
        return service
    except ValueError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is not a HealthCheckRequest")
        raise


def add_reflection(server: grpc.aio.Server) -> None:
    """Lets tools such as grpcurl discover the services."""
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
