"""What the admin listener answers: plain text that anybody may read."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from aclgrad_server.admin.health import Heartbeat, Readiness

UNAVAILABLE = 503


def application(heartbeat: Heartbeat, readiness: Readiness) -> Starlette:
    """Returns the pages: 200 if the process is alive (`/livez`) or ready for calls (`/readyz`), else 503 and why."""

    async def livez(request: Request) -> Response:
        return _page("alive", "not alive", heartbeat.failure())

    async def readyz(request: Request) -> Response:
        return _page("ready", "not ready", heartbeat.failure() or readiness.reason)

    return Starlette(routes=[Route("/livez", livez), Route("/readyz", readyz)])


def _page(good: str, bad: str, reason: str | None) -> Response:
    text, status = (good, 200) if reason is None else (f"{bad}: {reason}", UNAVAILABLE)
    return PlainTextResponse(f"{text}\n", status, headers={"cache-control": "no-store"})
