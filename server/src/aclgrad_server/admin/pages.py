"""The pages of the admin listener, by path. None of them waits, whatever the main loop or a driver does."""

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from aclgrad_server.admin.metrics import Metrics
from aclgrad_server.state import ServerState

Page = Callable[[], Response]

NO_STORE = {"cache-control": "no-store"}


def pages(state: ServerState) -> list[Route]:
    """Returns what the listener serves to GET and HEAD."""
    heartbeat, readiness, metrics = state.heartbeat, state.readiness, Metrics(state)
    table: Mapping[str, Page] = {
        "/livez": lambda: _answer("alive", heartbeat.failure()),
        "/readyz": lambda: _answer("ready", heartbeat.failure() or readiness.reason),
        "/metrics": lambda: Response(metrics.text(), headers=NO_STORE, media_type=metrics.media_type),
    }
    return [_route(path, page) for path, page in table.items()]


def _route(path: str, page: Page) -> Route:
    # A coroutine: a plain function would run in a thread of a pool, and a page is quicker than that.
    async def answer(request: Request) -> Response:
        return page()

    return Route(path, answer)


def _answer(what: str, failure: str | None) -> Response:
    text, status = (what, 200) if failure is None else (f"not {what}: {failure}", 503)
    return PlainTextResponse(f"{text}\n", status, headers=NO_STORE)
