"""Servers in this process that say who they are, as the workers of a host do; a test has them hang, drain or lie."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc

import aclgrad
from aclgrad._client.sync.transport import run
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import SERVER
from tools.calling import maybe_await

from .scripted_service import INPUTS, REPLY, end

SERVICE: Final = "aclgrad.v1.OperatorService"
HOST_ID: Final = "0f" * 16
_SERVING, _NOT_SERVING, _UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"
_HANG_S: Final = 30.0


class Worker(grpc.GenericRpcHandler):
    """A server that answers any call, and health for the names in `services`; None has no health at all."""

    def __init__(self, services: set[str] | None) -> None:
        self.services = services
        self.host: pb.Host | None = pb.Host()
        """What it tells of its host; None refuses to."""
        self.port = 0
        self.calls: list[dict[str, Any]] = []
        """The metadata of each call that began."""
        self.looks: list[str] = []
        """The methods by which clients looked at it."""
        self.answers = threading.Event()
        self.answers.set()
        self.takes = False
        """Whether it says at once that it takes a call."""
        self.check_delay_s = 0.0
        self._watches: list[tuple[bytes, Callable[[bytes | None], None]]] = []
        self._is_draining = False
        self._core: grpc.Server | None = None
        self._ends = ExitStack()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = details.method.rpartition("/")[2]
        if name == "Watch" and self.services is not None:
            return grpc.unary_stream_rpc_method_handler(self._watch_handler())
        if name in ("Check", "Watch"):
            self.looks.append(name)
            return None if self.services is None else grpc.unary_unary_rpc_method_handler(self._check)
        if name == "ListOperators":
            self.looks.append(name)
            return grpc.unary_unary_rpc_method_handler(self._list)
        return grpc.unary_unary_rpc_method_handler(self._call)

    def drain(self) -> None:
        """Says NOT_SERVING, as a server does before it refuses calls."""
        self._is_draining = True
        for name, send in self._watches:
            send(self._status(name))

    def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None, host: str = "127.0.0.1") -> None:
        threads = self._ends.enter_context(ThreadPoolExecutor(16))
        self._core = grpc.server(threads, [self], options=[("grpc.so_reuseport", 0)])
        where = f"{host}:{port}"
        self.port = (
            self._core.add_secure_port(where, credentials) if credentials else self._core.add_insecure_port(where)
        )
        self._core.start()

    def stop(self) -> None:
        if self._core is not None:
            end(self._core)
            self._core = None
        self.answers.set()
        self._watches.clear()
        self._ends.close()

    def _call(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append(dict(context.invocation_metadata()))
        if self.takes:
            context.send_initial_metadata(())
        self.answers.wait(_HANG_S)
        context.set_trailing_metadata(((SERVER, self.address),))
        return REPLY

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.answers.wait(_HANG_S)
        if self.host is None:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")
        return pb.ListOperatorsResponse(host=self.host).SerializeToString()

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.answers.wait(_HANG_S)
        time.sleep(self.check_delay_s)
        status = self._status(request)
        if status == _UNKNOWN:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return status

    def _watch_handler(self) -> Any:
        def watch(request: bytes, context: grpc.ServicerContext, send: Callable[[bytes | None], None]) -> None:
            self._watches.append((request, send))
            send(self._status(request))

        watch.experimental_non_blocking = True  # type: ignore[attr-defined]
        return watch

    def _status(self, request: bytes) -> bytes:
        if request[2:].decode() not in (self.services or ()):
            return _UNKNOWN
        return _NOT_SERVING if self._is_draining else _SERVING


@contextmanager
def running(
    *workers: Worker, ports: Sequence[int] = (), credentials: Any = None, host: str = "127.0.0.1"
) -> Iterator[None]:
    with ExitStack() as stack:
        for number, worker in enumerate(workers):
            worker.start(ports[number] if ports else 0, credentials, host)
            stack.callback(worker.stop)
        yield


class Host:
    """A front door and its workers; the door computes, too, as one of the workers does behind a shared port."""

    def __init__(self, count: int = 2, host_id: str = HOST_ID) -> None:
        names = {SERVICE, "", host_id}
        self.id = host_id
        self.door = Worker(set(names))
        self.workers = [Worker(set(names)) for _ in range(count)]

    @contextmanager
    def serving(self, ports: Sequence[int] = (), credentials: Any = None) -> Iterator["Host"]:
        """Runs them, the door at the first of the ports."""
        with running(self.door, *self.workers, ports=ports, credentials=credentials):
            self.tell(*(worker.port for worker in self.workers))
            yield self

    def tell(self, *ports: int) -> None:
        """Has the door tell these ports."""
        self.door.host = pb.Host(id=self.id, listeners=[pb.Listener(port=self.door.port, worker_ports=ports)])

    @property
    def ports(self) -> list[int]:
        return [self.door.port, *(worker.port for worker in self.workers)]

    @property
    def counts(self) -> list[int]:
        return [len(worker.calls) for worker in self.workers]

    def forget(self) -> None:
        for each in (self.door, *self.workers):
            each.calls.clear()
            each.looks.clear()


async def call(client: Any, times: int = 1, **options: Any) -> None:
    for _ in range(times):
        await maybe_await(client.execute("pool", INPUTS, **options))


async def settled(client: Any) -> None:
    """Returns when the client has learnt what is due."""
    for _ in range(3):
        client._transport.discover()  # noqa: SLF001
        discovered = client._transport.discovered  # noqa: SLF001
        if isinstance(client, aclgrad.AsyncClient):
            await discovered(30.0)
        else:
            run(discovered, 30.0)


async def on_workers(client: Any) -> None:
    """Makes the calls that lead a client to the workers of its host."""
    await call(client, 2)
    await settled(client)
