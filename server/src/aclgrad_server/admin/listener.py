"""The admin listener: HTTP on its own thread and event loop, so that it answers even if the main loop hangs.

gRPC must stay away from this loop: two loops of grpc.aio in one process disturb each other.
"""

import asyncio
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from aclgrad_server.exits import StartError
from aclgrad_server.listen_addresses import UNIX

log = logging.getLogger(__name__)

Page = Callable[[Request], Awaitable[Response]]
"""A coroutine: a plain function would run in a pool's thread, which takes longer than the page."""
NO_STORE: Final = {"cache-control": "no-store"}

STOP_LIMIT_S: Final = 1.0

MAX_CONNECTIONS: Final = 512
"""Connections at once. Beyond: the oldest is closed."""
MAX_HEADER_BYTES: Final = 16 * 2**10
"""The headers of a request. Beyond: the request is refused."""
CONNECTION_LIMIT_S: Final = 5.0
"""The time from accepting a connection to the end of its one reply. Beyond: the connection is closed."""
BACKLOG: Final = MAX_CONNECTIONS // 2
"""The kernel's backlog, all of it accepted in one turn of the loop: fewer than may be open, so that new connections
never replace one just accepted. Further clients retry a second later."""
# After the process ran out of files; less than asyncio's own pause, which begins a moment later.
_PAUSE_S: Final = 0.5
_WARNING_INTERVAL_S: Final = 60.0
# Errors of an accept that end when others give something back.
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class AdminListener:
    """Serves pages from `start` to `stop`. A page runs on the listener's event loop, so it must not wait."""

    def __init__(self, address: str, pages: Mapping[str, Page]) -> None:
        """Takes an address as the setting `admin` has it, HOST:PORT with an IPv6 host in brackets, or unix:PATH."""
        self._address = address
        config = uvicorn.Config(
            Starlette(routes=[Route(path, page) for path, page in pages.items()]),
            http=_Connection,
            loop="asyncio",
            ws="none",
            lifespan="off",
            # One request for each connection, so an idle one need not stay open.
            headers=[("connection", "close")],
            server_header=False,
            # Not from the environment (WEB_CONCURRENCY, FORWARDED_ALLOW_IPS).
            workers=1,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            backlog=BACKLOG,
            # Only failures of our own pages are logged; bad requests are their senders' concern.
            log_config=None,
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_ours)
        # uvicorn handles signals only on the main thread, so it does not touch them here.
        self._server = uvicorn.Server(config)
        # A daemon: it never keeps the process from ending.
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)

    def start(self) -> str:
        """Returns the bound address, with the chosen port for port 0; raises StartError if it cannot listen."""
        self._socket = _ListeningSocket(fileno=_bind(self._address).detach())
        self._thread.start()
        if self._socket.family == socket.AF_UNIX:
            return self._address
        host = self._address.rpartition(":")[0]
        return f"{host}:{self._socket.getsockname()[1]}"

    def stop(self) -> None:
        """Stops listening; returns after STOP_LIMIT_S at most."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.get_loop().set_exception_handler(_log_other_than_shortages)
                runner.run(self._server.serve([self._socket]))
        except Exception:
            log.exception("the admin listener failed; health checks get no answer")


def health(what: str, failure: str | None) -> Response:
    return answer(failure is None, what if failure is None else f"not {what}: {failure}")


def answer(is_well: bool, text: str) -> Response:
    """Returns the answer to a health check."""
    return PlainTextResponse(f"{text}\n", 200 if is_well else 503, headers=NO_STORE)


class _ListeningSocket(socket.socket):
    """A socket that accepts nothing for a moment after the process ran out of files, and logs that once a minute.

    asyncio pauses by itself, but first tries a whole backlog, logs each try, and goes on as often after the pause.
    """

    _paused_until_s = 0.0
    _warned_until_s = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        now_s = time.monotonic()
        if now_s < self._paused_until_s:
            raise BlockingIOError
        try:
            return super().accept()
        except OSError as error:
            if error.errno in _SHORTAGES:
                self._paused_until_s = now_s + _PAUSE_S
                self._warn(error, now_s)
            raise

    def _warn(self, error: OSError, now_s: float) -> None:
        if now_s >= self._warned_until_s:
            self._warned_until_s = now_s + _WARNING_INTERVAL_S
            remedy = "raise the limit of open files (ulimit -n, LimitNOFILE)"
            log.warning("health checks wait for a file: %s; %s", error.strerror, remedy)


def _log_other_than_shortages(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in _SHORTAGES):
        loop.default_exception_handler(context)


class _Connection(H11Protocol):
    """A connection that is closed at its time limit, or as the oldest one if there are too many.

    uvicorn's own limit refuses newcomers: a few hundred silent connections would make every health check fail.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        while len(self.connections) >= MAX_CONNECTIONS:
            # uvicorn fills this set only with connections of this class.
            oldest: _Connection = min(self.connections, key=lambda each: each.accepted_s)  # type: ignore
            oldest.cut_off()
        super().connection_made(transport)
        self.accepted_s = self.loop.time()
        self._limit = self.loop.call_later(CONNECTION_LIMIT_S, self.cut_off)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.cancel()
        super().connection_lost(exc)

    def cut_off(self) -> None:
        self.transport.abort()
        # At once: the loop reports the loss only after it has accepted all waiting connections.
        self.connections.discard(self)


def _is_ours(record: logging.LogRecord) -> bool:
    """Drops the traceback that uvicorn logs if a body is malformed when the answer to its head is sent."""
    return record.exc_info is None or not isinstance(record.exc_info[1], h11.LocalProtocolError)


def check_address(address: str) -> None:
    """Raises StartError if nothing could listen there."""
    _bind(address).close()
    if address.startswith(UNIX):
        os.unlink(address.removeprefix(UNIX))


def _bind(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        if address.startswith(UNIX):
            return socket.create_server(address.removeprefix(UNIX), family=socket.AF_UNIX, backlog=BACKLOG)
        family, *_, bound = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        # [::] also accepts IPv4, as it does for gRPC.
        dual_stack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(bound[:2], family=family, backlog=BACKLOG, dualstack_ipv6=dual_stack)
    except OSError as error:
        raise StartError(f"cannot listen on {address}: {error.strerror or error}; give another --admin") from error
