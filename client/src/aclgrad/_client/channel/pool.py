"""The channels of one client: which one a call uses, when servers are discovered, when a channel is closed.

A client of one server begins at its front door. After its first success it asks for the workers of the server's host,
and opens a second channel to them, on which gRPC chooses. A worker has to answer to the host's id before it gets calls,
and again after a pause in which the host could have ended and others have taken its ports.

After a silent attempt, a call fails over to one server after the other by channels of its own, to each once.

A client of a `dns:` target leaves the name to gRPC. Only if a server is silent, it looks the name up by itself and
calls the others by address until all answer again.

There is no input or output here: a `Network` does that, for threads or for tasks.
"""

import math
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from aclgrad._client.channel.probes import Channel, Network
from aclgrad._client.channel.servers import Balancing, Endpoints, Servers
from aclgrad.errors import (
    AclgradError,
    ConnectionLostError,
    DeadlinePassedError,
    MethodNotServedError,
    OtherProductError,
    ServerUnreachableError,
)

IDLE_S: Final = 2.0
"""After this long without calls, a client checks whether the ports of its workers are still theirs."""
PAUSE_S: Final = 1.0
"""Between two discoveries after lost connections."""
ASK_AGAIN_S: Final = 5.0
"""A function that names servers is asked again after this time, while calls are made."""


class ChannelPool:
    """The channels of one client. Its methods may be called from any thread."""

    def __init__(
        self, servers: Servers, open_to: Callable[[Endpoints], Channel], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.servers = servers
        self.clock = clock
        self._open_to = open_to
        self._lock = threading.Lock()
        self._open: set[Channel] = set()
        self.front: Channel | None = None
        """The channel to the target itself; calls may use others."""
        self.current: Channel | None = None
        """The channel that calls use; None until names have been looked up."""
        self.suspect: Channel | None = None
        """The latest channel with a silent attempt: one of its connections may be half open."""
        self._is_verified = True
        """Whether the workers are known to be unchanged since they were asked."""
        self.is_asked = False
        """Whether the host was asked for its workers, or is about to be."""
        self._is_discovering = self._is_closed = False
        self._due_at: float | None = None
        self._is_awaited = False
        """Whether a call waits for the next discovery."""
        self._discovered_at, self._used_at = -math.inf, clock()
        self.present: Endpoints | None = None
        """The servers that answered when they were last checked."""
        self.heard: set[str] = set()
        """The servers that have answered the current check, which waits a second for silent ones."""
        self._here: set[str] = set()
        """The servers that answered the previous check."""
        self.left_out: list[str] = []
        self.has_unreached = False
        """Whether the host has workers that this client cannot reach."""
        self.source_problem = ""
        """Why the user's function named no servers last time."""

    def start(self, channel: Channel) -> None:
        with self._lock:
            self._open.add(channel)
            self.current = channel
            if channel.endpoints.balancing is Balancing.ONE:
                self.front = channel
            else:
                self.present = channel.endpoints

    def take(self, tried: set[str] | None = None) -> Channel | None:
        """Returns the channel for a call, to be returned to `give_back`; None if names have to be looked up first.

        After a failover, it leads to one server that is not in `tried`, and is added there.
        """
        now = self.clock()
        with self._lock:
            if tried is not None and (other := self._open_other(tried)) is not None:
                self._used_at = now
                other.calls += 1
                return other
            channel = self.current
            if channel is None:
                self._due_at = now
                return None
            if channel is not self.front and self.front is not None:
                if now - self._used_at > IDLE_S and self._is_verified:
                    self._is_verified, self._due_at = False, now
                if not self._is_verified:
                    channel = self.front
            self._used_at = now
            channel.calls += 1
            return channel

    def _open_other(self, tried: set[str]) -> Channel | None:
        """Opens a channel to one server for one call; None if all have been tried."""
        present = self.present
        others = _untried(present, tried)
        if present is None or not others or self._is_closed:
            return None
        heard = [each for each in others if each in self.heard]
        address = random.choice(heard or [each for each in others if each in self._here] or others)
        tried.add(address)
        channel = self._open_to(present.only([address]))
        channel.is_retired = True
        self._open.add(channel)
        return channel

    def has_others(self, channel: Channel, tried: set[str] | None) -> bool:
        """Whether another server may answer instead; `tried` is None before the first failover."""
        if channel is self.front and self.has_unreached:
            # A new connection may reach another worker.
            return True
        if tried is not None:
            return bool(_untried(self.present, tried))
        if channel.endpoints.balancing is Balancing.ONE:
            return self.current is not channel
        # Only gRPC knows how many servers a name has.
        return len(channel.endpoints.addresses) != 1

    def succeeded(self, channel: Channel) -> None:
        """Notes the success of a call; after the first one, the host is asked for its workers."""
        if not self.is_asked and self.servers.host is not None and channel is self.front:
            with self._lock:
                self.is_asked, self._due_at = True, max(self.clock(), self._discovered_at + PAUSE_S)

    def failed(self, channel: Channel, error: AclgradError, *, fails_over: bool) -> None:
        """Notes the failure of a call, which may lead to a check of its server."""
        if isinstance(error, OtherProductError) and _untried(self.present, set()):
            # The server is well: nothing to check before the failover.
            return
        if fails_over:
            if self.servers.dns_name or _untried(self.present, set()) or self.has_unreached:
                self._is_awaited = True
                if not channel.is_retired:
                    self.suspect = channel
                self.discover_in(0.0)
        elif isinstance(error, ConnectionLostError | MethodNotServedError | DeadlinePassedError):
            left_workers = isinstance(error, ServerUnreachableError | MethodNotServedError)
            if left_workers and channel.endpoints.balancing is Balancing.WORKERS:
                # No server is there, or a wrong one.
                with self._lock:
                    self._is_verified &= self.current is not channel
            if self.is_asked or self.servers.listed or self.left_out:
                self.discover_in(max(0.0, self._discovered_at + PAUSE_S - self.clock()))

    def abandon(self, channel: Channel) -> None:
        """Replaces a channel, whose locks may be held for ever, for later calls to the same servers."""
        with self._lock:
            if channel.is_retired or self._is_closed:
                return
            fresh = self._open_to(channel.endpoints)
            self._open.add(fresh)
            channel.is_retired = True
            self.current = fresh if self.current is channel else self.current
            self.front = fresh if self.front is channel else self.front
            self.suspect = None if self.suspect is channel else self.suspect

    def give_back(self, channel: Channel) -> bool:
        """Ends a call; returns whether to close its channel now."""
        with self._lock:
            channel.calls -= 1
            return self._is_done(channel)

    @property
    def is_discovery_due(self) -> bool:
        """Whether a discovery is due and not under way."""
        due_at = self._due_at
        return due_at is not None and not self._is_discovering and self.clock() >= due_at

    def begin_discovery(self) -> bool:
        """Returns whether the caller has to discover servers, and then call `end_discovery`."""
        with self._lock:
            if self._is_discovering or self._due_at is None or self._is_closed:
                return False
            self._is_discovering, self._due_at = True, None
            return True

    def begin_look(self, network: Network) -> bool:
        """Prepares a check of the servers; returns whether a call waits for it."""
        self._here, self.heard = self.heard, set()
        if self.suspect is not None and self.suspect is self.front:
            self._renew_front(network, self.front)
        is_awaited, self._is_awaited = self._is_awaited, False
        return is_awaited

    def end_discovery(self) -> None:
        """Ends what `begin_discovery` began."""
        self._discovered_at = self.clock()
        self._is_discovering = False
        if callable(self.servers.listed):
            self.discover_in(ASK_AGAIN_S)

    def discover_in(self, delay_s: float) -> None:
        """Schedules a discovery, unless one is due before."""
        at = self.clock() + delay_s
        with self._lock:
            self._due_at = at if self._due_at is None else min(self._due_at, at)

    def close(self) -> list[Channel]:
        """Closes the pool: returns the channels to close; later ones are closed at once."""
        with self._lock:
            self._is_closed = True
            channels, self._open = list(self._open), set()
            return channels

    async def change(self, network: Network, endpoints: Endpoints) -> bool:
        """Switches to these servers, unless calls go to them already; returns whether calls go there now.

        A server that is well despite a silent attempt gets a new connection.
        """
        current = self.current
        if current is not None and current is not self.suspect and current.endpoints.has_same_servers(endpoints):
            self._is_verified = True
            return True
        channel = self._open_to(endpoints)
        with self._lock:
            is_closed = self._is_closed
            self._open.add(channel)
        if is_closed or (current is not None and not await network.is_connected(channel)):
            self._retire(network, channel)
            return False
        self.use(network, channel)
        return True

    def _renew_front(self, network: Network, before: Channel) -> None:
        """Reconnects to the front door after a silent attempt; the new connection may be to another worker."""
        channel = self._open_to(before.endpoints.apart())
        with self._lock:
            self._open.add(channel)
            self.front, self.suspect = channel, None
            if self.current is before:
                self.current = channel
        self._retire(network, before)

    def use(self, network: Network, channel: Channel) -> None:
        """Makes this the channel for calls; the previous one is closed when its last call has ended."""
        with self._lock:
            if channel.is_retired:
                # A call has abandoned it meanwhile, and it was replaced.
                return
            before, self.current, self._is_verified = self.current, channel, True
            self._used_at = self.clock()
        if before is not None and before is not channel and before is not self.front:
            self._retire(network, before)

    def _retire(self, network: Network, channel: Channel) -> None:
        with self._lock:
            channel.is_retired = True
            is_done = self._is_done(channel)
        if is_done:
            network.close(channel)

    def _is_done(self, channel: Channel) -> bool:
        if not channel.is_retired or channel.calls or channel not in self._open:
            return False
        self._open.remove(channel)
        return True


def _untried(present: Endpoints | None, tried: set[str]) -> list[str]:
    return [each for each in present.addresses if each not in tried] if present is not None else []
