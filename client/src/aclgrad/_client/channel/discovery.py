"""Discovery of servers: looks names up, checks which servers answer, and finds the workers of a host.

There is no input or output here: a `Network` does that, for threads or for tasks.
"""

from collections.abc import Sequence
from typing import Final

from aclgrad._client.channel.pool import ASK_AGAIN_S, PAUSE_S, ChannelPool
from aclgrad._client.channel.probes import Answer, Channel, Network
from aclgrad._client.channel.resolver import Found, SourceError
from aclgrad._client.channel.servers import Endpoints
from aclgrad._client.reports import log

MOST_NAMED: Final = 64
"""Checked servers of a `dns:` target; with more, a second attempt hardly meets the silent one."""
_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 60.0
"""Time until excluded servers are checked again."""


class Discovery:
    """Discovers the servers of one client, one discovery at a time, and points its channels at those that answer."""

    def __init__(self, channels: ChannelPool, network: Network) -> None:
        self._channels = channels
        self._network = network
        self._servers = channels.servers
        self._known: Endpoints | None = None
        """All known servers, excluded ones included."""
        self._unnamed_since: float | None = None
        """Since when no names have been looked up, because calls waited."""
        self._wait_s = _FIRST_WAIT_S

    async def run(self) -> None:
        """Discovers the servers, and opens a channel to them if they have changed."""
        channels = self._channels
        is_awaited = channels.begin_look(self._network)
        front = channels.front
        try:
            if self._servers.listed or front is None:
                await self._check_list(is_awaited=is_awaited)
            elif self._known is None or not await self._check_workers(self._known):
                await self._ask(front)
        finally:
            channels.end_discovery()

    async def _check_list(self, *, is_awaited: bool) -> None:
        """Looks names up again, and excludes silent and wrong servers.

        While a call waits, only servers are asked, and no name servers. If servers have moved and every call meets a
        wrong one, names are still looked up after a while.
        """
        channels, now = self._channels, self._channels.clock()
        since = self._unnamed_since
        with_names = not is_awaited or (since is not None and now >= since + ASK_AGAIN_S)
        self._unnamed_since = None if with_names else since or now
        before = self._known = self._known or channels.present
        if self._servers.names and (with_names or before is None or not before.addresses):
            try:
                found = await self._network.look_up(self._servers.names, self._servers.rules)
            except SourceError as error:
                channels.source_problem = str(error)
                log.warning("%s: %s", self._servers.name, error)
                return
            channels.source_problem = ""
            endpoints = self._servers.listed_endpoints(found)
            if endpoints is None:
                # If the name servers do not answer, the earlier result stays.
                return
            self._known = endpoints
            if before is None:
                channels.present = endpoints
                await channels.change(self._network, endpoints)
                return
        if self._known is None or not self._known.addresses:
            return
        if self._servers.dns_name and len(self._known.addresses) > MOST_NAMED:
            answers = dict.fromkeys(self._known.addresses, Answer.HERE)
        else:
            answers = await self._network.check(self._known, channels.heard)
        present = [each for each, answer in answers.items() if answer not in (Answer.SILENT, Answer.WRONG_SERVER)]
        await self._change_to(self._known, present, answers)
        if not with_names:
            channels.discover_in(PAUSE_S)

    async def _check_workers(self, known: Endpoints) -> bool:
        """Excludes workers that do not answer to the host's id; returns whether one does, or still may."""
        channels = self._channels
        answers = await self._network.check(known, channels.heard)
        if Answer.HERE not in answers.values():
            if Answer.SILENT not in answers.values():
                return False
            # No call, and so no token, goes to a wrong server.
            channels.present = known.only([each for each in answers if answers[each] is not Answer.WRONG_SERVER])
            channels.discover_in(PAUSE_S)
            return True
        used = channels.current.endpoints.addresses if channels.current is not None else ()
        present = [
            each
            for each, answer in answers.items()
            # A running host keeps its ports.
            if answer is Answer.HERE or (answer is Answer.UNREACHABLE and each in used)
        ]
        return await self._change_to(known, present, answers)

    async def _change_to(self, known: Endpoints, present: Sequence[str], answers: dict[str, Answer]) -> bool:
        """Switches to these of all servers, and schedules a check of the others; returns whether calls go there."""
        channels = self._channels
        missing = [each for each in answers if each not in present]
        if not present:
            # Probably this side hears nobody, and new connections would not help.
            present, missing = list(answers), []
            channels.suspect = None
        channels.present = endpoints = known.only(present)
        if not missing and self._servers.dns_name and self._servers.endpoints:
            # gRPC resolves the name again.
            endpoints = self._known = self._servers.endpoints
        is_changed = await channels.change(self._network, endpoints)
        if not missing and channels.left_out and not is_changed:
            self._look_later()
            return False
        if missing:
            if channels.left_out != missing:
                told = ", ".join(f"{each} is {answers[each].value}" for each in missing)
                log.info("%s: %s; calls go to the others until it answers", self._servers.name, told)
            self._look_later()
        else:
            self._wait_s = _FIRST_WAIT_S
        channels.left_out = missing
        return is_changed

    async def _ask(self, front: Channel) -> None:
        """Asks the front door for the host's workers, and switches to the reachable ones."""
        channels = self._channels
        self._known = channels.present = None
        host = await self._network.ask(front)
        workers = () if host is None else self._servers.workers(host)
        if host is None or not workers:
            channels.use(self._network, front)
            if host is None:
                # It is asked again after the next successful call.
                channels.is_asked = False
            else:
                channels.has_unreached = False
            return
        found = await self._network.look_up(workers, self._servers.rules)
        if found.numbers and await self._go_to(workers, found, host.id):
            channels.has_unreached = False
            return
        # They may only have been slow.
        self._known = None
        channels.use(self._network, front)
        if not channels.has_unreached:
            told = "%s has workers at %s, where this client does not reach them: calls stay with the one at %s"
            log.info(told, self._servers.name, ", ".join(workers), self._servers.name)
        channels.has_unreached = True
        self._look_later()

    async def _go_to(self, workers: Sequence[str], found: Found, host_id: str) -> bool:
        """Switches to the first address of each worker that answers; returns whether calls go there.

        One worker is enough. Only here it shows whether an address belongs to another host or family.
        """
        endpoints = self._servers.worker_endpoints(found, host_id)
        answers = await self._network.check(endpoints, self._channels.heard)
        known: list[str] = []
        present: list[str] = []
        for numbers in (found.numbers[worker] for worker in workers if worker in found.numbers):
            here = [each for each in numbers if answers[each] is Answer.HERE][:1]
            present += here
            known += here or numbers[:1]
        if not present:
            return False
        self._known = endpoints.only(known)
        return await self._change_to(self._known, present, {each: answers[each] for each in self._known.addresses})

    def _look_later(self) -> None:
        self._channels.discover_in(self._wait_s)
        self._wait_s = min(_LONGEST_WAIT_S, 2 * self._wait_s)
