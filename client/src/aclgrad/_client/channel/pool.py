"""The channels of one client: which of them calls use, and what the client learns of its servers in the meantime.

A client of one server begins at its front door. After its first success it asks which workers the server's host has,
and goes to them by a second channel, on which gRPC chooses. Before a call goes to a worker, the worker has answered to
the host's id: at first, and again after a pause in which the host could have ended and others have taken its ports.

Nothing here is input or output: a `Network` does it, for threads or for tasks.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from aclgrad._client.channel.network import Answer, Line, Network
from aclgrad._client.channel.servers import Choice, Route, Servers, alone
from aclgrad._client.reports import log
from aclgrad.errors import AclgradError, ConnectionLostError, MethodNotServedError, ServerUnreachableError

SILENCE_S: Final = 2.0
"""A client that made no call for so long does not know whether the ports of its workers are still theirs."""
PAUSE_S: Final = 1.0
"""Between two looks that lost connections lead to."""
_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 60.0
"""Until servers that were left out are looked for again."""


class Lines:
    """The channels of one client. Its methods may be called from any thread, `learn` from one at a time."""

    def __init__(self, servers: Servers, clock: Callable[[], float] = time.monotonic) -> None:
        self.servers = servers
        self._clock = clock
        self._lock = threading.Lock()
        self._open: set[Line] = set()
        self._front: Line | None = None
        """The channel to the only target, while others may be in use."""
        self._line: Line | None = None
        """The channel that calls use; None until names have been looked up."""
        self._doubted: Line | None = None
        """The latest channel on which a call heard nothing: one of its connections may be half open."""
        self._is_sure = True
        """Whether the workers are known to be the same as when they were asked."""
        self._is_asked = False
        self._is_learning = self._is_closed = False
        self._due_at: float | None = None
        self._is_awaited = False
        """Whether a call waits for the next look: only servers are asked then, no name servers."""
        self._learnt_at, self._used_at = -math.inf, clock()
        self._wait_s = _FIRST_WAIT_S
        self._all: Route | None = None
        """The way to all servers that were told or found, and those that were left out included."""
        self._left_out: list[str] = []
        self._has_told = False

    def start(self, line: Line) -> None:
        """Begins with a channel to the target."""
        with self._lock:
            self._open.add(line)
            self._line = line
            if line.route.choice is Choice.ONE:
                self._front = line
            else:
                self._all = line.route

    def take(self) -> Line | None:
        """Returns the channel for a call, which `give_back` gets; None if nobody has looked the names up."""
        now = self._clock()
        with self._lock:
            line = self._line
            if line is None:
                self._due_at = now
                return None
            if line is not self._front and self._front is not None:
                if now - self._used_at > SILENCE_S and self._is_sure:
                    self._is_sure, self._due_at = False, now
                if not self._is_sure:
                    line = self._front
            self._used_at = now
            line.calls += 1
            return line

    def has_others(self, line: Line) -> bool:
        """Whether another server may answer where this one does not."""
        return line.route.choice is not Choice.ONE or self._line is not line

    def succeeded(self, line: Line) -> None:
        """Notes the success of a call: the first is when the host is asked for its workers."""
        if not self._is_asked and self.servers.host is not None and line is self._front:
            with self._lock:
                self._is_asked, self._due_at = True, max(self._clock(), self._learnt_at + PAUSE_S)

    def failed(self, line: Line, error: AclgradError, *, moves: bool) -> None:
        """Notes the failure of a call: what it says of its server is looked into."""
        if moves:
            if self._all is not None and self._all.addresses:
                self._is_awaited = True
                self._doubted = line
                self._look_soon(self._clock())
        elif isinstance(error, ConnectionLostError | MethodNotServedError):
            if line.route.choice is Choice.WORKERS and isinstance(error, ServerUnreachableError | MethodNotServedError):
                # There is nobody, or a stranger.
                with self._lock:
                    self._is_sure &= self._line is not line
            if self._is_asked or self.servers.listed:
                self._look_soon(max(self._clock(), self._learnt_at + PAUSE_S))

    def give_back(self, line: Line) -> bool:
        """Ends a call; returns whether its channel is to be closed now."""
        with self._lock:
            line.calls -= 1
            return self._is_done(line)

    @property
    def is_due(self) -> bool:
        """Whether there is something to learn now, and nobody does."""
        due_at = self._due_at
        return due_at is not None and not self._is_learning and self._clock() >= due_at

    def begin(self) -> bool:
        """Returns whether the caller is the one that has to `learn`."""
        with self._lock:
            if self._is_learning or self._due_at is None or self._is_closed:
                return False
            self._is_learning, self._due_at = True, None
            return True

    def give_up(self) -> None:
        """Ends what `begin` began."""
        self._is_learning = False

    async def learn(self, network: Network) -> None:
        """Looks for the servers, and changes to a channel to them if they are others than before."""
        is_awaited, self._is_awaited = self._is_awaited, False
        try:
            if self.servers.listed or self._front is None:
                await self._look_at_list(network, with_names=not is_awaited)
            elif self._all is None or not await self._look_at_workers(network):
                await self._ask(network)
        finally:
            self._learnt_at = self._clock()
            self._is_learning = False

    def close(self) -> list[Line]:
        """Returns the channels to close; those that are opened later are closed at once."""
        with self._lock:
            self._is_closed = True
            lines, self._open = list(self._open), set()
            return lines

    async def _look_at_list(self, network: Network, *, with_names: bool) -> None:
        """Looks names up again, and leaves out servers that say nothing, or that they are of another kind."""
        if self.servers.listed and (with_names or self._all is None):
            before, route = self._all, self.servers.listed_route(await network.look_up(self.servers.listed))
            if route is None:
                # The name servers may not answer: what was found before stays.
                return
            self._all = route
            if before is None:
                await self._change(network, route)
                return
        if self._all is None or not self._all.addresses:
            return
        answers = dict(zip(self._all.addresses, await network.check(alone(self._all)), strict=True))
        present = [each for each, answer in answers.items() if answer not in (Answer.SILENT, Answer.STRANGER)]
        await self._change_to(network, present, answers)
        if not with_names:
            self._look_soon(self._clock() + PAUSE_S)

    async def _look_at_workers(self, network: Network) -> bool:
        """Leaves out workers that do not answer to the host's id; returns whether one does."""
        assert self._all is not None
        answers = dict(zip(self._all.addresses, await network.check(alone(self._all)), strict=True))
        if Answer.HERE not in answers.values():
            return False
        used = self._line.route.addresses if self._line is not None else ()
        present = [
            each
            for each, answer in answers.items()
            # As long as the host lives, it holds the ports that it had.
            if answer is Answer.HERE or (answer is Answer.UNREACHABLE and each in used)
        ]
        return await self._change_to(network, present, answers)

    async def _change_to(self, network: Network, present: Sequence[str], answers: dict[str, Answer]) -> bool:
        """Changes to these of all servers, and has the others looked for later; returns whether calls go there."""
        assert self._all is not None
        missing = [each for each in answers if each not in present]
        if not present:
            # It is rather this side that hears nobody, and new connections would not help.
            present, missing = list(answers), []
            self._doubted = None
        is_changed = await self._change(network, self._all.of(present))
        if missing:
            told = ", ".join(f"{each} is {answers[each].value}" for each in missing)
            if self._left_out != missing:
                log.info("%s: %s; calls go to the others until it answers", self.servers.name, told)
            self._look_later()
        else:
            self._wait_s = _FIRST_WAIT_S
        self._left_out = missing
        return is_changed

    async def _ask(self, network: Network) -> None:
        """Asks at the front door which workers the host has, and goes to those that can be reached."""
        assert self._front is not None
        self._all = None
        host = await network.ask(self._front)
        if host is None:
            # Calls go to the front door, and the next one that succeeds has it asked again.
            self._is_asked = False
            self._use(network, self._front)
            return
        workers = self.servers.workers(host)
        if not workers:
            self._use(network, self._front)
            return
        found = await network.look_up(workers)
        numbers = [number for worker in workers for number in found.get(worker, ())]
        if not numbers:
            self._stay(network, workers)
            return
        route = self.servers.worker_route(numbers, host.id)
        answers = dict(zip(route.addresses, await network.check(alone(route)), strict=True))
        # A name may have several numbers; one is enough, and which of them is another host or family shows only here.
        reached = {
            worker: next((each for each in found.get(worker, ()) if answers[each] is Answer.HERE), None)
            for worker in workers
        }
        if not any(reached.values()):
            self._stay(network, workers)
            return
        self._all = route.of([each or found[worker][0] for worker, each in reached.items() if each or worker in found])
        present = [each for each in reached.values() if each]
        if not await self._change_to(network, present, {each: answers[each] for each in self._all.addresses}):
            self._all = None
            self._stay(network, workers)

    def _stay(self, network: Network, workers: Sequence[str]) -> None:
        """Uses the front door until the workers are looked for again: they may only have been slow to answer."""
        assert self._front is not None
        self._use(network, self._front)
        if not self._has_told:
            told = "%s has workers at %s, where this client does not reach them: calls stay with the one at %s"
            log.info(told, self.servers.name, ", ".join(workers), self.servers.name)
        self._has_told = True
        self._look_later()

    async def _change(self, network: Network, route: Route) -> bool:
        """Changes to these servers, unless calls go to them already; returns whether calls go there now.

        A server that is well although a call heard nothing of it gets a new connection.
        """
        if self._line is not None and self._line.route.leads_to_the_same(route) and self._line is not self._doubted:
            self._is_sure = True
            return True
        line = await network.open(route)
        with self._lock:
            is_closed = self._is_closed
            self._open.add(line)
        if is_closed or (self._line is not None and not await network.is_connected(line)):
            self._retire(network, line)
            return False
        self._use(network, line)
        return True

    def _use(self, network: Network, line: Line) -> None:
        """Has calls use this channel from now on; the one before is closed when its last call has ended."""
        with self._lock:
            before, self._line, self._is_sure = self._line, line, True
            self._used_at = self._clock()
        if before is not None and before is not line and before is not self._front:
            self._retire(network, before)

    def _retire(self, network: Network, line: Line) -> None:
        with self._lock:
            line.is_retired = True
            is_done = self._is_done(line)
        if is_done:
            network.close(line)

    def _is_done(self, line: Line) -> bool:
        if not line.is_retired or line.calls or line not in self._open:
            return False
        self._open.remove(line)
        return True

    def _look_later(self) -> None:
        self._look_soon(self._clock() + self._wait_s)
        self._wait_s = min(_LONGEST_WAIT_S, 2 * self._wait_s)

    def _look_soon(self, at: float) -> None:
        with self._lock:
            self._due_at = at if self._due_at is None else min(self._due_at, at)
