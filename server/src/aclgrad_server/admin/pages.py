"""The pages of the admin listener, by path. None of them waits, whatever the main loop or a driver does."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from aclgrad_server.admin.listener import NO_STORE, health_answer
from aclgrad_server.liveness import Readiness
from aclgrad_server.server_view import ServerView
from aclgrad_server.status.server_status import server_status

Page = Callable[[], Response]


def pages(view: ServerView) -> list[Route]:
    """Returns what the listener serves to GET and HEAD."""
    heartbeat, readiness = view.heartbeat, view.readiness
    # Everybody may read the page, so it says nothing of the machine if calls need an identity.
    with_private = view.settings.identities is None
    table: dict[str, Page] = {
        "/": lambda: _status_page(view, with_private),
        "/livez": lambda: health_answer("alive", heartbeat.failure()),
        "/readyz": lambda: health_answer("ready", heartbeat.failure() or readiness.reason),
        "/metrics": lambda: _metrics(view),
    }
    for_supervisors: dict[str, Page] = {
        "/state": lambda: JSONResponse(_state(heartbeat.failure(), readiness)),
        "/status": lambda: Response(server_status(view, with_private).SerializeToString()),
    }
    pages = table if view.place is None else table | for_supervisors
    return [_route(path, answer) for path, answer in pages.items()]


def _route(path: str, answer: Page) -> Route:
    # A coroutine: a plain function would run in a thread of a pool, and a page is quicker than that.
    async def serve(request: Request) -> Response:
        return answer()

    return Route(path, serve)


def _status_page(view: ServerView, with_private: bool) -> Response:
    # Not at the top: the template takes a tenth of a server's start, and few are asked for the page.
    from aclgrad_server.admin import page

    return HTMLResponse(page.render(server_status(view, with_private)), headers=page.HEADERS)


def _metrics(view: ServerView) -> Response:
    from aclgrad_server.admin.metrics import Metrics  # not at the top, either

    metrics = Metrics(view)
    return Response(metrics.text(), headers=NO_STORE, media_type=metrics.media_type)


def _state(failure: str | None, readiness: Readiness) -> dict[str, Any]:
    reason = failure or readiness.reason
    return {"alive": failure is None, "reason": reason, "unfit": reason is not None and readiness.is_for_good}
