"""The channels of one client: which of them calls use, and what the client learns of its servers in the meantime.

A client of one server begins at its front door. After its first success it asks which workers the server's host has,
and goes to them by a second channel, on which gRPC chooses. Before a call goes to a worker, the worker has answered to
the host's id: at first, and again after a pause in which the host could have ended and others have taken its ports.

A call that heard nothing goes to one server after the other by channels of its own, and to none of these twice.

A client of a `dns:` target leaves the name to gRPC. Only if a server says nothing does it look the name up by itself,
and call the others by numbers until all answer again.

Nothing here is input or output: a `Network` does it, for threads or for tasks.
"""

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from aclgrad._client.channel.probes import (
    MOST_NAMED,
    Answer,
    Channel,
    Network,
    answers_of_each,
    reached_by_name,
)
from aclgrad._client.channel.resolver import SourceError
from aclgrad._client.channel.servers import Balancing, Endpoints, Servers
from aclgrad._client.reports import log
from aclgrad.errors import (
    AclgradError,
    ConnectionLostError,
    DeadlinePassedError,
    MethodNotServedError,
    ServerUnreachableError,
)

IDLE_S: Final = 2.0
"""A client that made no call for so long does not know whether the ports of its workers are still theirs."""
PAUSE_S: Final = 1.0
"""Between two discoveries that lost connections lead to."""
ASK_AGAIN_S: Final = 5.0
"""After which a function is asked again which servers there are, while calls are made."""
_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 60.0
"""Until servers that were left out are checked again."""


class ChannelPool:
    """The channels of one client. Its methods may be called from any thread, `discover` from one at a time."""

    def __init__(
        self, servers: Servers, open_to: Callable[[Endpoints], Channel], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.servers = servers
        self._open_to = open_to
        self._clock = clock
        self._lock = threading.Lock()
        self._open: set[Channel] = set()
        self._front: Channel | None = None
        """The channel to the only target, while others may be in use."""
        self._current: Channel | None = None
        """The channel that calls use; None until names have been looked up."""
        self._suspect: Channel | None = None
        """The latest channel on which a call heard nothing: one of its connections may be half open."""
        self._is_verified = True
        """Whether the workers are known to be the same as when they were asked."""
        self._is_asked = False
        self._is_discovering = self._is_closed = False
        self._due_at: float | None = None
        self._is_awaited = False
        """Whether a call waits for the next discovery: only servers are asked then, no name servers."""
        self._unnamed_since: float | None = None
        """Since when discoveries have looked up no names because calls waited for them."""
        self._discovered_at, self._used_at = -math.inf, clock()
        self._wait_s = _FIRST_WAIT_S
        self._known: Endpoints | None = None
        """All servers that are known, those that were left out included."""
        self._present: Endpoints | None = None
        """Those that answered when they were last checked."""
        self._heard: set[str] = set()
        """Those that have answered the check under way, which waits for a silent one for a second."""
        self._here: set[str] = set()
        """Those that answered the check before."""
        self._left_out: list[str] = []
        self._has_unreached = False
        """Whether the host at the front door has workers that this client does not reach."""
        self.source_problem = ""
        """Why the function that names the servers named none when it was asked last."""

    def start(self, channel: Channel) -> None:
        """Begins with a channel to the target."""
        with self._lock:
            self._open.add(channel)
            self._current = channel
            if channel.endpoints.balancing is Balancing.ONE:
                self._front = channel
            else:
                self._known = self._present = channel.endpoints

    def take(self, tried: set[str] | None = None) -> Channel | None:
        """Returns the channel for a call, which `give_back` gets; None if nobody has looked the names up.

        For a call that has moved, that leads to one server that is not among those it `tried`, and is added to them.
        """
        now = self._clock()
        with self._lock:
            if tried is not None and (other := self._open_other(tried)) is not None:
                self._used_at = now
                other.calls += 1
                return other
            channel = self._current
            if channel is None:
                self._due_at = now
                return None
            if channel is not self._front and self._front is not None:
                if now - self._used_at > IDLE_S and self._is_verified:
                    self._is_verified, self._due_at = False, now
                if not self._is_verified:
                    channel = self._front
            self._used_at = now
            channel.calls += 1
            return channel

    def _open_other(self, tried: set[str]) -> Channel | None:
        """Opens a channel for one call to one server, which is closed with the call; None if all have been tried."""
        present = self._present
        others = _untried(present, tried)
        if present is None or not others or self._is_closed:
            return None
        heard = [each for each in others if each in self._heard]
        address = random.choice(heard or [each for each in others if each in self._here] or others)
        tried.add(address)
        channel = self._open_to(present.only([address]))
        channel.is_retired = True
        self._open.add(channel)
        return channel

    def has_others(self, channel: Channel, tried: set[str] | None) -> bool:
        """Whether another server may answer where this one does not; `tried` is None unless the call has moved."""
        if channel is self._front and self._has_unreached:
            # A new connection may lead to another of its workers.
            return True
        if tried is not None:
            return bool(_untried(self._present, tried))
        if channel.endpoints.balancing is Balancing.ONE:
            return self._current is not channel
        # Of a name, gRPC alone knows how many servers it has.
        return len(channel.endpoints.addresses) != 1

    def succeeded(self, channel: Channel) -> None:
        """Notes the success of a call: the first is when the host is asked for its workers."""
        if not self._is_asked and self.servers.host is not None and channel is self._front:
            with self._lock:
                self._is_asked, self._due_at = True, max(self._clock(), self._discovered_at + PAUSE_S)

    def failed(self, channel: Channel, error: AclgradError, *, moves: bool) -> None:
        """Notes the failure of a call, which may be a reason to check its server."""
        if moves:
            has_known = self._known is not None and bool(self._known.addresses)
            if self.servers.dns_name or has_known or self._has_unreached:
                # Servers may have moved while every call meets a stranger: names are looked up in the end.
                since = self._unnamed_since
                self._is_awaited = since is None or self._clock() < since + ASK_AGAIN_S
                if not channel.is_retired:
                    self._suspect = channel
                self._discover_by(self._clock())
        elif isinstance(error, ConnectionLostError | MethodNotServedError | DeadlinePassedError):
            has_left = isinstance(error, ServerUnreachableError | MethodNotServedError)
            if has_left and channel.endpoints.balancing is Balancing.WORKERS:
                # There is nobody, or a stranger.
                with self._lock:
                    self._is_verified &= self._current is not channel
            if self._is_asked or self.servers.listed or self._left_out:
                self._discover_by(max(self._clock(), self._discovered_at + PAUSE_S))

    def give_back(self, channel: Channel) -> bool:
        """Ends a call; returns whether its channel is to be closed now."""
        with self._lock:
            channel.calls -= 1
            return self._is_done(channel)

    @property
    def is_discovery_due(self) -> bool:
        """Whether there is something to discover now, and nobody does."""
        due_at = self._due_at
        return due_at is not None and not self._is_discovering and self._clock() >= due_at

    def begin_discovery(self) -> bool:
        """Returns whether the caller is the one that has to `discover`."""
        with self._lock:
            if self._is_discovering or self._due_at is None or self._is_closed:
                return False
            self._is_discovering, self._due_at = True, None
            return True

    def give_up_discovery(self) -> None:
        """Ends what `begin_discovery` began."""
        self._is_discovering = False

    async def discover(self, network: Network) -> None:
        """Looks for the servers, and changes to a channel to them if they are others than before."""
        is_awaited, self._is_awaited = self._is_awaited, False
        self._here, self._heard = self._heard, set()
        if self._suspect is not None and self._suspect is self._front:
            self._renew_front(network)
        try:
            if self.servers.listed or self._front is None:
                await self._check_list(network, with_names=not is_awaited)
            elif self._known is None or not await self._check_workers(network):
                await self._ask(network)
        finally:
            self._discovered_at = self._clock()
            self._is_discovering = False
            if callable(self.servers.listed):
                self._discover_by(self._discovered_at + ASK_AGAIN_S)

    def close(self) -> list[Channel]:
        """Returns the channels to close; those that are opened later are closed at once."""
        with self._lock:
            self._is_closed = True
            channels, self._open = list(self._open), set()
            return channels

    async def _check_list(self, network: Network, *, with_names: bool) -> None:
        """Looks names up again, and leaves out servers that say nothing, or that they are of another kind."""
        names = self.servers.names
        self._unnamed_since = None if with_names else self._unnamed_since or self._clock()
        if names and (with_names or self._known is None or not self._known.addresses):
            try:
                found = await network.look_up(names, self.servers.rules)
            except SourceError as error:
                self.source_problem = str(error)
                log.warning("%s: %s", self.servers.name, error)
                return
            self.source_problem = ""
            before, endpoints = self._known, self.servers.listed_endpoints(found)
            if endpoints is None:
                # The name servers may not answer: what was found before stays.
                return
            self._known = endpoints
            if before is None:
                self._present = endpoints
                await self._change(network, endpoints)
                return
        if self._known is None or not self._known.addresses:
            return
        answers = await answers_of_each(
            network, self._known, self._heard, MOST_NAMED if self.servers.dns_name else None
        )
        present = [each for each, answer in answers.items() if answer not in (Answer.SILENT, Answer.STRANGER)]
        await self._change_to(network, present, answers)
        if not with_names:
            self._discover_by(self._clock() + PAUSE_S)

    async def _check_workers(self, network: Network) -> bool:
        """Leaves out workers that do not answer to the host's id; returns whether one does, or may yet."""
        assert self._known is not None
        answers = await answers_of_each(network, self._known, self._heard)
        if Answer.HERE not in answers.values():
            if Answer.SILENT not in answers.values():
                return False
            self._present = self._known
            self._discover_by(self._clock() + PAUSE_S)
            return True
        used = self._current.endpoints.addresses if self._current is not None else ()
        present = [
            each
            for each, answer in answers.items()
            # As long as the host lives, it holds the ports that it had.
            if answer is Answer.HERE or (answer is Answer.UNREACHABLE and each in used)
        ]
        return await self._change_to(network, present, answers)

    async def _change_to(self, network: Network, present: Sequence[str], answers: dict[str, Answer]) -> bool:
        """Changes to these of all servers, and has the others checked later; returns whether calls go there."""
        assert self._known is not None
        missing = [each for each in answers if each not in present]
        if not present:
            # It is rather this side that hears nobody, and new connections would not help.
            present, missing = list(answers), []
            self._suspect = None
        self._present = endpoints = self._known.only(present)
        if not missing and self.servers.dns_name and self.servers.endpoints:
            # gRPC follows the name again.
            endpoints = self._known = self.servers.endpoints
        is_changed = await self._change(network, endpoints)
        if missing:
            told = ", ".join(f"{each} is {answers[each].value}" for each in missing)
            if self._left_out != missing:
                log.info("%s: %s; calls go to the others until it answers", self.servers.name, told)
            self._discover_later()
        elif self._left_out and not is_changed:
            self._discover_later()
            return False
        else:
            self._wait_s = _FIRST_WAIT_S
        self._left_out = missing
        return is_changed

    async def _ask(self, network: Network) -> None:
        """Asks at the front door which workers the host has, and goes to those that can be reached."""
        assert self._front is not None
        self._known = self._present = None
        host = await network.ask(self._front)
        if host is None:
            # Calls go to the front door, and the next one that succeeds has it asked again.
            self._is_asked = False
            self._use(network, self._front)
            return
        workers = self.servers.workers(host)
        if not workers:
            self._has_unreached = False
            self._use(network, self._front)
            return
        found = await network.look_up(workers, self.servers.rules)
        if not found.numbers:
            self._stay(network, workers)
            return
        endpoints = self.servers.worker_endpoints(found, host.id)
        answers = await answers_of_each(network, endpoints, self._heard)
        reached = reached_by_name(workers, found, answers)
        if not any(reached.values()):
            self._stay(network, workers)
            return
        numbers = found.numbers
        known = [each or numbers[worker][0] for worker, each in reached.items() if each or worker in numbers]
        self._known = endpoints.only(known)
        present = [each for each in reached.values() if each]
        if not await self._change_to(network, present, {each: answers[each] for each in self._known.addresses}):
            self._known = None
            self._stay(network, workers)
        else:
            self._has_unreached = False

    def _stay(self, network: Network, workers: Sequence[str]) -> None:
        """Uses the front door until the workers are checked again: they may only have been slow to answer."""
        assert self._front is not None
        self._use(network, self._front)
        if not self._has_unreached:
            told = "%s has workers at %s, where this client does not reach them: calls stay with the one at %s"
            log.info(told, self.servers.name, ", ".join(workers), self.servers.name)
        self._has_unreached = True
        self._discover_later()

    async def _change(self, network: Network, endpoints: Endpoints) -> bool:
        """Changes to these servers, unless calls go to them already; returns whether calls go there now.

        A server that is well although a call heard nothing of it gets a new connection.
        """
        current = self._current
        if current is not None and current is not self._suspect and current.endpoints.has_same_servers(endpoints):
            self._is_verified = True
            return True
        channel = self._open_to(endpoints)
        with self._lock:
            is_closed = self._is_closed
            self._open.add(channel)
        if is_closed or (current is not None and not await network.is_connected(channel)):
            self._retire(network, channel)
            return False
        self._use(network, channel)
        return True

    def _renew_front(self, network: Network) -> None:
        """Has the front door take a new connection, which may be another worker's: on this one a call heard nothing."""
        before = self._front
        assert before is not None
        channel = self._open_to(before.endpoints.apart())
        with self._lock:
            self._open.add(channel)
            self._front, self._suspect = channel, None
            if self._current is before:
                self._current = channel
        self._retire(network, before)

    def _use(self, network: Network, channel: Channel) -> None:
        """Has calls use this channel from now on; the one before is closed when its last call has ended."""
        with self._lock:
            before, self._current, self._is_verified = self._current, channel, True
            self._used_at = self._clock()
        if before is not None and before is not channel and before is not self._front:
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

    def _discover_later(self) -> None:
        self._discover_by(self._clock() + self._wait_s)
        self._wait_s = min(_LONGEST_WAIT_S, 2 * self._wait_s)

    def _discover_by(self, at: float) -> None:
        with self._lock:
            self._due_at = at if self._due_at is None else min(self._due_at, at)


def _untried(present: Endpoints | None, tried: set[str]) -> list[str]:
    return [each for each in present.addresses if each not in tried] if present is not None else []
