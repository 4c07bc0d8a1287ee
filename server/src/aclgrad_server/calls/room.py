"""Places to run, memory and a queue that calls of one kind share and calls of no other kind take."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from aclgrad.errors import ServerBusyError
from aclgrad_server.calls.gate import Bounds, Claim, Gate

RETRY_AFTER_S: Final = 0.1
_WAIT_S: Final = 1.0  # for which a queue is long enough if its limit follows the pace of calls
_WEIGHT: Final = 1 / 16  # of the latest call in the mean time that calls run


class Callers(Protocol):
    """What a room asks about callers."""

    def bounds(self, caller: str, /) -> Bounds:
        """Returns what the caller may have."""

    def others_ask(self, caller: str, /) -> bool:
        """Returns whether another caller asks for something."""

    def waiting(self, caller: str, /) -> int:
        """Returns how many calls of the caller wait in all rooms."""


class Room:
    """Lets `running_limit` calls run on `bytes_limit` bytes of the device, and further ones wait.

    At most `waiting_limit` calls wait; with `is_paced`, only as many as begin to run within a second.
    """

    def __init__(
        self,
        callers: Callers,
        running_limit: int,
        waiting_limit: int,
        bytes_limit: int,
        reply_limit: int = sys.maxsize,
        is_paced: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.running_limit = running_limit
        self.refusals = 0
        """How many calls found the queue full."""
        self.share_refusals = 0
        """How many came from a caller that had its share of the queue."""
        self.places = Gate(running_limit, running_limit - 1, self, counts_bytes=False)
        self.memory = Gate(bytes_limit, bytes_limit // 2, self)
        self.replies = Gate(reply_limit, reply_limit // 2, self)
        self.messages = Gate(reply_limit, reply_limit // 2, self)
        """What compressed messages become."""
        self._callers = callers
        self._waiting_limit = waiting_limit
        self._is_paced = is_paced
        self._clock = clock
        self._mean_run_s = 0.0

    @property
    def gates(self) -> Iterator[Gate]:
        """Everything that calls of this room may wait for."""
        yield self.places
        yield self.replies
        yield self.messages
        yield self.memory

    @property
    def waiting_limit(self) -> int:
        """How many calls may wait now."""
        if not self._is_paced or self._mean_run_s * self._waiting_limit <= _WAIT_S * self.running_limit:
            return self._waiting_limit
        return max(self.running_limit, int(_WAIT_S * self.running_limit / self._mean_run_s))

    @property
    def waiting_count(self) -> int:
        return sum(gate.waiting_count for gate in self.gates)

    async def place(self, caller: str, most: int = 1) -> Claim:
        """Returns a claim on one place, and on up to `most` if nobody waits for them."""
        claim = await self.places.take(caller, 1)
        self.places.widen(claim, most)
        claim.since = self._clock()
        return claim

    def ran(self, place: Claim) -> None:
        """Gives back a place whose call has run."""
        # A single long one says little about the next ones.
        run_s = min(self._clock() - place.since, _WAIT_S)
        self._mean_run_s += _WEIGHT * (run_s - self._mean_run_s)
        place.give_back()

    def bounds(self, caller: str) -> Bounds:
        return self._callers.bounds(caller)

    def others_ask(self, caller: str) -> bool:
        return self._callers.others_ask(caller)

    def check_queue(self, caller: str) -> None:
        """Raises ServerBusyError if one more call of the caller may not wait."""
        limit = self.waiting_limit
        if self.waiting_count >= limit:
            self.refusals += 1
            raise _busy("the server", self.running_limit + limit)
        share = max(1, limit // 2)
        waiting = sum(len(gate.queues.get(caller, ())) for gate in self.gates)
        bound = self.bounds(caller).waiting
        if self._callers.waiting(caller) >= bound or (waiting >= share and self.others_ask(caller)):
            self.share_refusals += 1
            raise _busy("this client", self.running_limit + min(share, bound))


def _busy(who: str, limit: int) -> ServerBusyError:
    return ServerBusyError(
        f"{who} has as many calls in flight and waiting as it may have, {limit}",
        remedy=f"try again in {RETRY_AFTER_S} s",
        retry_after_s=RETRY_AFTER_S,
        metadata={"limit": str(limit)},
    )
