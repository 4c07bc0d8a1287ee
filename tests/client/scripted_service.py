"""A service that answers what a test tells it to."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import numpy as np

import aclgrad
from aclgrad.errors import to_status
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.service import REQUEST_ID

GRADIENT = np.array([1.5, -2.5], np.float32)
ONES = np.ones((1, 1, 1), np.float32)
INPUTS = {"a": ONES}
"""Those of a call that any service answers."""
REPLY = pb.ExecuteOperatorResponse(
    outputs=[tensor_pb2.Tensor(name="out", data_type=1, shape=[2], data=GRADIENT.tobytes())]
).SerializeToString()


def is_a_look(details: grpc.HandlerCallDetails) -> bool:
    """Whether the client or gRPC itself looks at its servers: only calls have a request id."""
    return REQUEST_ID not in dict(details.invocation_metadata)


@dataclass
class ScriptedService(grpc.GenericRpcHandler):
    """Answers every method with what `answer` returns, and keeps the requests."""

    answer: Callable[[grpc.ServicerContext], bytes] = lambda context: REPLY
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    address: str = ""
    current: threading.local = field(default_factory=threading.local)
    """`current.method` and `current.request` are what the thread that asks is about to answer."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if is_a_look(details):
            return None

        def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.requests.append((details.method, request))
            self.current.method, self.current.request = details.method, request
            return self.answer(context)

        return grpc.unary_unary_rpc_method_handler(behaviour)


def end(server: grpc.Server) -> None:
    """Ends a server at once, also one that a call reaches meanwhile."""
    # Again, because gRPC does not cancel a watch that arrives while it cancels the others, and waits for it.
    while not server.stop(0).wait(1):
        pass


@contextmanager
def listening(
    *handlers: grpc.GenericRpcHandler, address: str = "127.0.0.1:0", options: Sequence[tuple[str, int]] = ()
) -> Iterator[tuple[str, grpc.Server]]:
    """Runs a server, by default on a free port of loopback, and yields its address."""
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, handlers, options=options)
        port = server.add_insecure_port(address)
        server.start()
        yield re.sub(":0$", f":{port}", address), server
        end(server)


@contextmanager
def serving(address: str = "127.0.0.1:0") -> Iterator[ScriptedService]:
    scripted = ScriptedService()
    with listening(scripted, address=address) as (scripted.address, _):
        yield scripted


def relay_to(service: ScriptedService, channel: grpc.Channel) -> Callable[[grpc.ServicerContext], bytes]:
    """Answers what another server answers: the service only keeps the requests."""

    def answer(context: grpc.ServicerContext) -> bytes:
        try:
            return channel.unary_unary(service.current.method)(service.current.request, timeout=60)
        except grpc.RpcError as failure:
            context.set_trailing_metadata(failure.trailing_metadata())
            context.abort(failure.code(), failure.details())
            raise AssertionError from failure

    return answer


def abort_with(code: grpc.StatusCode, message: str, details: bytes | None = None) -> Callable[..., bytes]:
    def answer(context: grpc.ServicerContext) -> bytes:
        if details is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(code, message)
        raise AssertionError

    return answer


def failing(error: aclgrad.AclgradError) -> Callable[..., bytes]:
    """Answers as a server does that fails with the error."""
    return abort_with(error.code, error.message, to_status(error, "5f0c").SerializeToString())
