"""`grpc.health.v1` and reflection, on small pools of their own: they answer while every worker is busy."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from aclgrad_server.pooled import Pooled
from aclgrad_server.services.operators import SERVICE

LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING
_CHECK_THREADS: Final = 2
_WATCH_THREADS: Final = 64
"""Streams of Watch that are served at once; a thread each, made when it is needed."""
_REFLECTION_THREADS: Final = 2


class Health:
    """Tells whether the process lives (`liveness`) and takes calls (`readiness`, our service, the empty name)."""

    def __init__(self) -> None:
        # Not the non-blocking kind: there `set` sends to each watcher and waits, so that one who does not read, or
        # who leaves at that moment, holds up the server for good.
        watchers = ThreadPoolExecutor(_WATCH_THREADS, thread_name_prefix="watch")
        self._servicer = health.HealthServicer(experimental_non_blocking=False, experimental_thread_pool=watchers)
        checks = ThreadPoolExecutor(_CHECK_THREADS, thread_name_prefix="health")
        self._servicer.Check = Pooled(self._servicer.Check, checks)
        self._servicer.set(LIVENESS, _SERVING)
        self.set_ready(False)

    def set_ready(self, ready: bool) -> None:
        for service in ("", SERVICE, READINESS):
            self._servicer.set(service, _SERVING if ready else _NOT_SERVING)

    def add_to(self, server: grpc.Server) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)


def add_reflection(server: grpc.Server) -> None:
    """Lets tools such as grpcurl discover the services."""
    names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
    servicer = reflection.ReflectionServicer(names)
    pool = ThreadPoolExecutor(_REFLECTION_THREADS, thread_name_prefix="reflection")
    servicer.ServerReflectionInfo = Pooled(servicer.ServerReflectionInfo, pool)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
