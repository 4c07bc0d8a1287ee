"""The admin listener: HTTP on a thread and an event loop of its own, so that it answers whatever the main loop does.

gRPC must stay away from this loop: two loops of grpc.aio in one process disturb each other.
"""

import logging
import socket
import threading
from typing import Final

import uvicorn

from aclgrad_server.admin.connections import ACCEPTED_AT_ONCE, BACKLOG, MAX_HEADER_BYTES, BoundedConnection
from aclgrad_server.admin.health import Heartbeat, Readiness
from aclgrad_server.admin.pages import application
from aclgrad_server.devices.faults import StartError

log = logging.getLogger(__name__)

STOP_LIMIT_S: Final = 1.0


class AdminListener:
    """Serves `/livez` and `/readyz` from `start` to `stop`."""

    def __init__(self, address: str, heartbeat: Heartbeat, readiness: Readiness) -> None:
        """Takes an address as the setting `admin` has it: HOST:PORT, an IPv6 host in brackets."""
        self._address = address
        config = uvicorn.Config(
            application(heartbeat, readiness),
            http=BoundedConnection,
            loop="asyncio",
            ws="none",
            lifespan="off",
            # One request for each connection: an idle one has nothing to wait for.
            headers=[("connection", "close")],
            server_header=False,
            # Not from the environment (WEB_CONCURRENCY, FORWARDED_ALLOW_IPS).
            workers=1,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            backlog=ACCEPTED_AT_ONCE,
            # Of its log, only failures of our own pages; bad requests are their senders' concern.
            log_config=None,
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        # uvicorn takes signals only on the main thread, so it leaves them alone here.
        self._server = _Server(config)
        # A daemon: it never keeps the process from ending.
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)

    def start(self) -> str:
        """Returns HOST:PORT as it is bound, with the port chosen for port 0; raises StartError if it cannot listen."""
        self._socket = _bind(self._address)
        self._thread.start()
        host = self._address.rpartition(":")[0]
        return f"{host}:{self._socket.getsockname()[1]}"

    def stop(self) -> None:
        """Stops listening; returns after STOP_LIMIT_S at most."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        try:
            self._server.run([self._socket])
        except Exception:
            log.exception("the admin listener failed; health checks get no answer")


class _Server(uvicorn.Server):
    """asyncio takes one number for what it accepts at once and for what the kernel keeps; they differ here."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)


def _bind(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        family, *_, bound = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        # [::] takes IPv4 too, as it does for gRPC.
        dual_stack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(bound[:2], family=family, backlog=BACKLOG, dualstack_ipv6=dual_stack)
    except OSError as error:
        raise StartError(f"cannot listen on {address}: {error.strerror or error}; give another --admin") from error
