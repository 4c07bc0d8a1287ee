"""The pages of a host's admin listener. A worker that does not answer delays a page only up to a limit."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from aclgrad.descriptions.hosts import DOES_NOT_ANSWER, WorkerAnswer, merge
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.admin.listener import NO_STORE, Page, answer, health
from aclgrad_server.supervisor.worker import State, Worker, ask

if TYPE_CHECKING:
    from aclgrad_server.supervisor.supervisor import Supervisor

WORKER: Final = "worker"
UP: Final = "aclgrad_worker_up", "1 if the worker has answered this scrape, 0 if not"
RESTARTS: Final = "aclgrad_worker_restarts_total", "times that the worker was started again after it had ended"


def pages(supervisor: "Supervisor") -> dict[str, Page]:
    """Returns what the listener serves to GET and HEAD."""

    async def live(_: Request) -> Response:
        return health("alive", supervisor.heartbeat.failure())

    async def ready(_: Request) -> Response:
        states = [(each.index, each.state is State.READY, each.reason) for each in supervisor.workers]
        lines = [f"worker {index}: {'ready' if is_ready else f'not ready: {why}'}" for index, is_ready, why in states]
        is_ready = any(each for _, each, _ in states)
        return answer(is_ready, "\n".join(["ready" if is_ready else "not ready", *lines]))

    async def metrics(_: Request) -> Response:
        workers = supervisor.workers
        texts = await asyncio.gather(*(ask(each.socket, "/metrics") for each in workers))
        # In a thread: thousands of lines are parsed, and /livez has to answer meanwhile.
        text = await asyncio.to_thread(generate_latest, HostMetrics(workers, texts))
        return Response(text, headers=NO_STORE, media_type=CONTENT_TYPE_LATEST)

    async def status(_: Request) -> Response:
        from aclgrad_server.admin import page  # not at the top, as in the pages of a server

        answers = await asyncio.gather(*(_status_of(worker, supervisor) for worker in supervisor.workers))
        return HTMLResponse(page.render(merge(answers)), headers=page.HEADERS)

    return {"/": _Shared(status).page, "/livez": live, "/readyz": ready, "/metrics": _Shared(metrics).page}


class _Shared:
    """A page that is made once for all concurrent requests: workers are asked once at a time."""

    def __init__(self, make: Page) -> None:
        self._make = make
        self._made: asyncio.Future[Response] | None = None

    async def page(self, request: Request) -> Response:
        if self._made is None or self._made.done():
            self._made = asyncio.ensure_future(self._make(request))
        # A request that ends does not cancel it for the others.
        return await asyncio.shield(self._made)


async def _status_of(worker: Worker, supervisor: "Supervisor") -> WorkerAnswer:
    answer = await ask(worker.socket, "/status")
    # The page is public, so it omits the machine's details if calls need an identity.
    own = supervisor.addresses.own[worker.index] if supervisor.settings.identities is None else ()
    return WorkerAnswer(
        worker.index,
        None if answer is None else pb.GetServerStatusResponse.FromString(answer),
        worker.reason or DOES_NOT_ANSWER,
        own,
        worker.restarts,
        worker.orders.settings.device[0],
    )


class HostMetrics(Collector):
    def __init__(self, workers: Sequence[Worker], answers: Sequence[bytes | None]) -> None:
        """Takes the answer of each worker, or None."""
        self._answered = tuple(zip(workers, answers, strict=True))

    def collect(self) -> Iterator[Family]:
        up, restarts = GaugeMetricFamily(*UP, labels=[WORKER]), CounterMetricFamily(*RESTARTS, labels=[WORKER])
        families: dict[str, Family] = {}
        for worker, text in self._answered:
            label = str(worker.index)
            up.add_metric([label], text is not None)
            restarts.add_metric([label], worker.restarts)
            for family in text_string_to_metric_families((text or b"").decode()):
                kept = families.setdefault(family.name, Family(family.name, family.documentation, family.type))
                kept.samples += [one._replace(labels={**one.labels, WORKER: label}) for one in family.samples]
        yield up
        yield restarts
        yield from families.values()
