"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers. No locks.

A caller is an identity if the server has identities, and an address otherwise.
"""

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aclgrad.errors import AclgradError, LimitExceededError, ServerBusyError
from aclgrad_server.calls.gate import Bounds, Claim, Gate
from aclgrad_server.calls.pace import Pace
from aclgrad_server.limits import ASKING_S, LONGEST_PAUSE_S, RECEIVE_BYTES_PER_S
from aclgrad_server.plan import check_size

RETRY_AFTER_S: Final = 0.1


_NO_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limits` bytes on each device, and `waiting_limit` more wait.

    Calls claim memory, then a place to run, so they never wait for each other in a circle. While others ask, a caller
    gets no more than half of a memory, half of the queue and all places but one.
    """

    def __init__(
        self,
        running_limit: int,
        waiting_limit: int,
        bytes_limits: Sequence[int] = (sys.maxsize,),
        clock: Callable[[], float] = time.monotonic,
        reply_limit: int = sys.maxsize,
        bounds: Callable[[str], Bounds] = lambda caller: _NO_BOUNDS,
    ) -> None:
        """Takes what bounds each caller; by default nothing does while no others ask."""
        self.running_limit = running_limit
        self.waiting_limit = waiting_limit
        self.bytes_limit = sum(bytes_limits)
        self.bounds = bounds
        self.refusals = 0
        """How many calls found the queue full."""
        self.share_refusals = 0
        """How many came from a caller that had its share of the queue."""
        self._clock = clock
        self.places = Gate(running_limit, running_limit - 1, self, counts_bytes=False)
        self.replies = Gate(reply_limit, reply_limit // 2, self)
        self.memories = [Gate(limit, limit // 2, self) for limit in bytes_limits]
        self._gates = (self.places, self.replies, *self.memories)
        self._seen: OrderedDict[str, float] = OrderedDict()  # when each caller asked last, the oldest first
        self._receiving = Pace(RECEIVE_BYTES_PER_S, LONGEST_PAUSE_S, clock)

    async def memory(self, caller: str, size_bytes: int, waits_for_client: bool = False) -> tuple[int, Claim]:
        """Returns the index of the device with the fewest bytes claimed, and a claim on so much of its memory.

        Raises LimitExceededError for more bytes than any device holds, and ServerBusyError if too many calls wait.
        """
        self._asks(caller)
        index = min(range(len(self.memories)), key=lambda each: self.memories[each].order(size_bytes))
        check_size(size_bytes, self.memories[index].limit)
        if size_bytes > (limit := self.bounds(caller).size_bytes):
            raise _too_large(size_bytes, limit)
        return index, await self.memories[index].take(caller, size_bytes, waits_for_client)

    async def reply(self, caller: str, size_bytes: int) -> Claim:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        return await self.replies.take(caller, size_bytes, waits_for_client=True)

    async def place(self, caller: str) -> Claim:
        """Returns a claim on a place to run; raises ServerBusyError if too many calls wait already."""
        self._asks(caller)
        return await self.places.take(caller, 1)

    def sweep(self) -> None:
        """Serves calls that waited because others asked, if these have stopped. To be called some times a second."""
        self._forget()
        for gate in self._gates:
            gate.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends the wait of every call, now and later: what runs on a device that is lost may never end."""
        for gate in self._gates:
            gate.lose(new_error)

    def receive_delay_s(self, caller: str) -> float:
        """Returns how long the next message of the caller is to wait while others ask; at most 0 for no wait."""
        return self._receiving.delay_s(caller) if self.others_ask(caller) else 0.0

    def received(self, caller: str, size_bytes: int) -> None:
        """Counts a message that was received."""
        self._receiving.spend(caller, size_bytes)

    def occupancy(self) -> Occupancy:
        """Returns what is in use; any thread may ask."""
        return Occupancy(self.places.used, self._waiting_count(), sum(memory.used for memory in self.memories))

    @property
    def asking_count(self) -> int:
        """How many callers count as ones that ask."""
        return len(self._seen)

    def others_ask(self, caller: str) -> bool:
        """Returns whether another caller asked within `ASKING_S`, or waits."""
        known: list[Mapping[str, Any]] = [self._seen, *(gate.queues for gate in self._gates)]
        return any(len(callers) > (caller in callers) for callers in known)

    def check_queue(self, caller: str) -> None:
        """Raises ServerBusyError if one more call of the caller may not wait."""
        if self._waiting_count() >= self.waiting_limit:
            self.refusals += 1
            raise _busy("the server", self.running_limit + self.waiting_limit)
        share = max(1, self.waiting_limit // 2)
        waiting = sum(len(gate.queues.get(caller, ())) for gate in self._gates)
        bound = self.bounds(caller).waiting
        if waiting >= bound or (waiting >= share and self.others_ask(caller)):
            self.share_refusals += 1
            raise _busy("this client", self.running_limit + min(share, bound))

    def _waiting_count(self) -> int:
        return sum(gate.waiting_count for gate in self._gates)

    def _asks(self, caller: str) -> None:
        self._seen[caller] = self._clock()
        self._seen.move_to_end(caller)
        self._forget()

    def _forget(self) -> None:
        """Forgets callers that have not asked for `ASKING_S`."""
        oldest = self._clock() - ASKING_S
        while self._seen and next(iter(self._seen.values())) < oldest:
            self._seen.popitem(last=False)


def _too_large(size_bytes: int, limit: int) -> LimitExceededError:
    problem = f"takes {size_bytes} bytes and this identity may have {limit} at most"
    metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
    remedy = "send smaller tensors or fewer calls, or ask for a larger max_bytes in the server's identities"
    return LimitExceededError.at("call", problem, remedy, metadata)


def _busy(who: str, limit: int) -> ServerBusyError:
    return ServerBusyError(
        f"{who} has as many calls in flight and waiting as it may have, {limit}",
        remedy=f"try again in {RETRY_AFTER_S} s",
        retry_after_s=RETRY_AFTER_S,
        metadata={"limit": str(limit)},
    )
