"""The pages of a host's admin listener. A worker that does not answer in time delays none of them for longer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from aclgrad.host_status import DOES_NOT_ANSWER, WorkerAnswer, merge
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.supervisor.answers import ask
from aclgrad_server.supervisor.metrics import WorkerMetrics, merged
from aclgrad_server.supervisor.worker import State, Worker

if TYPE_CHECKING:
    from aclgrad_server.supervisor.supervisor import Supervisor

Page = Callable[[], Awaitable[Response]]

NO_STORE: Final = {"cache-control": "no-store"}


def pages(supervisor: "Supervisor") -> list[Route]:
    """Returns what the listener serves to GET and HEAD."""

    async def live() -> Response:
        failure = supervisor.heartbeat.failure()
        return _answer(failure is None, "alive" if failure is None else f"not alive: {failure}")

    async def ready() -> Response:
        lines = [f"worker {worker.index}: {_state(worker)}" for worker in supervisor.workers]
        is_ready = any(worker.state is State.READY for worker in supervisor.workers)
        return _answer(is_ready, "\n".join(["ready" if is_ready else "not ready", *lines]))

    async def metrics() -> Response:
        answers = await asyncio.gather(*(_metrics_of(worker) for worker in supervisor.workers))
        # In a thread: thousands of lines are parsed, and /livez has to answer meanwhile.
        text = await asyncio.to_thread(merged, answers)
        return Response(text, headers=NO_STORE, media_type=CONTENT_TYPE_LATEST)

    async def status() -> Response:
        from aclgrad_server.admin import page  # not at the top, as in the pages of a server

        answers = await asyncio.gather(*(_status_of(worker, supervisor) for worker in supervisor.workers))
        return HTMLResponse(page.render(merge(answers)), headers=page.HEADERS)

    table: Mapping[str, Page] = {
        "/": _Shared(status),
        "/livez": live,
        "/readyz": ready,
        "/metrics": _Shared(metrics),
    }
    return [_route(path, answer) for path, answer in table.items()]


class _Shared:
    """A page that is made once for all who ask meanwhile: however many they are, workers are asked once at a time."""

    def __init__(self, make: Page) -> None:
        self._make = make
        self._made: asyncio.Future[Response] | None = None

    async def __call__(self) -> Response:
        if self._made is None or self._made.done():
            self._made = asyncio.ensure_future(self._make())
        # Whoever goes away does not end it for the others.
        return await asyncio.shield(self._made)


def _route(path: str, answer: Page) -> Route:
    async def serve(request: Request) -> Response:
        return await answer()

    return Route(path, serve)


def _answer(is_well: bool, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", 200 if is_well else 503, headers=NO_STORE)


def _state(worker: Worker) -> str:
    return "ready" if worker.state is State.READY else f"not ready: {worker.reason}"


async def _metrics_of(worker: Worker) -> WorkerMetrics:
    answer = await ask(worker.socket, "/metrics")
    return WorkerMetrics(worker.index, None if answer is None else answer.decode(), worker.restarts)


async def _status_of(worker: Worker, supervisor: "Supervisor") -> WorkerAnswer:
    answer = await ask(worker.socket, "/status")
    return WorkerAnswer(
        worker.index,
        None if answer is None else pb.GetServerStatusResponse.FromString(answer),
        worker.reason or DOES_NOT_ANSWER,
        supervisor.addresses.own[worker.index] if supervisor.shows_private else (),
        worker.restarts,
        worker.orders.settings.device[0],
    )
