"""The admin listener's connections: bounded in number, time and size, whatever their clients do."""

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 512
MAX_HEADER_BYTES: Final = 16 * 2**10
CONNECTION_LIMIT_S: Final = 5.0
"""From accepting a connection to the end of its reply. Each carries one request, so none has to stay."""
ACCEPTED_AT_ONCE: Final = MAX_CONNECTIONS // 2
"""In one turn of the loop: fewer than may be open, so that new ones never push out one that was just accepted."""
BACKLOG: Final = 1024
"""Connections that the kernel keeps until they are accepted: those beyond are tried again a second later."""


class BoundedConnection(H11Protocol):
    """A connection that is cut off at its time limit, or as the oldest one when there are too many.

    uvicorn waits forever for a request, and at its own limit (`limit_concurrency`) it refuses newcomers: with that, a
    few hundred silent connections would make every health check fail.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        while len(self.connections) >= MAX_CONNECTIONS:
            # uvicorn fills this set with connections of this class alone.
            oldest: BoundedConnection = min(self.connections, key=lambda each: each.accepted_s)  # type: ignore
            oldest.cut_off()
        super().connection_made(transport)
        self.accepted_s = self.loop.time()
        self._limit = self.loop.call_later(CONNECTION_LIMIT_S, self.cut_off)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.cancel()
        super().connection_lost(exc)

    def cut_off(self) -> None:
        self.transport.abort()
        # Now, because the loop reports the loss only after it has made all the connections that wait.
        self.connections.discard(self)
