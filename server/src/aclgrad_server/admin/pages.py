"""The pages of a server's admin listener, by path. None of them waits, whatever the main loop or a driver does."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from aclgrad_server.admin.listener import NO_STORE, Page, health
from aclgrad_server.server_view import ServerView
from aclgrad_server.status.server_status import server_status


def pages(view: ServerView) -> dict[str, Page]:
    """Returns what the listener serves to GET and HEAD."""
    # The page is public, so it omits the machine's details if calls need an identity.
    with_private = view.settings.identities is None

    async def live(_: Request) -> Response:
        return health("alive", view.heartbeat.failure())

    async def ready(_: Request) -> Response:
        return health("ready", view.not_ready_reason)

    async def metrics(_: Request) -> Response:
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        from aclgrad_server.admin.metrics import Metrics  # not at the top, as in `status_page`

        return Response(generate_latest(Metrics(view)), headers=NO_STORE, media_type=CONTENT_TYPE_LATEST)

    async def status_page(_: Request) -> Response:
        # Not at the top: the template takes a tenth of a server's start, and few servers are asked for the page.
        from aclgrad_server.admin import page

        return HTMLResponse(page.render(server_status(view, with_private)), headers=page.HEADERS)

    async def state(_: Request) -> Response:
        is_alive, is_unfit = view.heartbeat.failure() is None, view.readiness.is_for_good
        return JSONResponse({"alive": is_alive, "reason": view.not_ready_reason, "unfit": is_unfit})

    async def status(_: Request) -> Response:
        return Response(server_status(view, with_private).SerializeToString())

    table: dict[str, Page] = {"/": status_page, "/livez": live, "/readyz": ready, "/metrics": metrics}
    for_supervisors: dict[str, Page] = {"/state": state, "/status": status}
    return table if view.place is None else table | for_supervisors
