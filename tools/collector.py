"""A collector of traces on loopback, which keeps what it gets, or does to its callers what it is told to."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

OK, ERROR, SERVER_KIND = 0, 2, 2


class Received(NamedTuple):
    """A span, with the attributes of the process that made it."""

    span: Span
    resource: Mapping[str, Any]

    @property
    def attributes(self) -> dict[str, Any]:
        return values_of(self.span.attributes)


def values_of(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in pairs}


class TraceService(service.TraceServiceServicer):
    """Listens from `with` to the end of the block, on a port that may be given."""

    def __init__(self, port: int = 0, treat: Callable[[grpc.ServicerContext], object] = lambda context: None) -> None:
        """`treat` may wait, or abort the call that it is given."""
        self.port = port
        self.treat = treat
        self.spans: list[Received] = []
        self.export_count = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def named(self, name: str) -> list[Received]:
        return [each for each in self.spans if each.span.name.rpartition("/")[2] == name]

    def Export(  # noqa: N802 - the name of the method
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        self.export_count += 1
        self.treat(context)
        for each in request.resource_spans:
            resource = values_of(each.resource.attributes)
            self.spans += [Received(span, resource) for scope in each.scope_spans for span in scope.spans]
        return pb.ExportTraceServiceResponse()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        service.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.stop(0).wait()
        self._pool.shutdown()
