"""Liveness and readiness, asked on a new connection each time, as a kubelet does."""

import http.client
from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

Ask = Callable[[float], None]
"""Asks with a limit in seconds; raises unless the answer is yes."""


class UnhealthyError(Exception):
    """The server says no."""


def health_questions(address: str, admin: str | None) -> dict[str, Ask]:
    """Returns how to ask for liveness and readiness: the admin listener if the server named one, or else gRPC."""
    if admin is not None:
        return {"live": lambda limit_s: _get(admin, "/livez", limit_s), "ready": lambda s: _get(admin, "/readyz", s)}
    return {"live": lambda s: check(address, "liveness", s), "ready": lambda s: check(address, "readiness", s)}


def new_channel(address: str) -> grpc.Channel:
    """Returns a channel that shares its connection with no other."""
    return grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])


def check(address: str, service: str, limit_s: float) -> None:
    with new_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        _expect(stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=limit_s))


def watch(address: str, limit_s: float) -> None:
    """Opens a watch and waits for its first word."""
    with new_channel(address) as channel:
        replies = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=limit_s)
        _expect(next(replies))
        replies.cancel()


def _expect(reply: health_pb2.HealthCheckResponse) -> None:
    if reply.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnhealthyError(f"status {reply.status}")


def _get(admin: str, path: str, limit_s: float) -> None:
    connection = http.client.HTTPConnection(admin, timeout=limit_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise UnhealthyError(f"status {response.status}")
    finally:
        connection.close()
