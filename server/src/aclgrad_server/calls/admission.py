"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers. No locks.

A caller is an identity if the server has identities, and an address otherwise.
"""

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.gate import Bounds, Claim, Gate
from aclgrad_server.calls.pace import Pace
from aclgrad_server.calls.room import Room
from aclgrad_server.devices.planning import check_size
from aclgrad_server.limits import (
    ASKING_S,
    LONGEST_PAUSE_S,
    MAX_WAITING_SMALL_CALLS,
    RECEIVE_BYTES_PER_S,
    SMALL_BYTES,
)

_NO_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limit` bytes, and `waiting_limit` more wait.

    Small calls have a room of their own with `small_limit` places, which other calls never take, not even those of the
    same caller: many clients may share an address. Without places for them, they are calls like all others.

    Calls claim memory, then a place to run, so they never wait for each other in a circle. While others ask, a caller
    gets no more than half of a memory, half of a queue and all places but one.
    """

    def __init__(
        self,
        running_limit: int,
        waiting_limit: int,
        bytes_limit: int = sys.maxsize,
        clock: Callable[[], float] = time.monotonic,
        reply_limit: int = sys.maxsize,
        bounds: Callable[[str], Bounds] = lambda caller: _NO_BOUNDS,
        small_limit: int = 0,
    ) -> None:
        """Takes what bounds each caller; by default nothing does while no others ask."""
        self.bounds = bounds
        self._clock = clock
        self.large = Room(self, running_limit, waiting_limit, bytes_limit, reply_limit, clock=clock)
        self.small = self.large
        if small_limit:
            small_bytes = SMALL_BYTES * (small_limit + MAX_WAITING_SMALL_CALLS)
            self.small = Room(self, small_limit, MAX_WAITING_SMALL_CALLS, small_bytes, is_paced=True, clock=clock)
            one, other = self.large.memory, self.small.memory
            one.other, other.other = other, one
        self.rooms = {"large": self.large, "small": self.small} if small_limit else {"large": self.large}
        self.has_small = bool(small_limit)
        self._gates = [gate for room in self.rooms.values() for gate in room.gates]
        self._seen: OrderedDict[str, float] = OrderedDict()  # when each caller asked last, the oldest first
        self._receiving = Pace(RECEIVE_BYTES_PER_S, LONGEST_PAUSE_S, clock)

    def room(self, is_small: bool) -> Room:
        """Returns the room of small calls, or that of others."""
        return self.small if is_small else self.large

    async def memory(
        self, caller: str, size_bytes: int, waits_for_client: bool = False, is_small: bool = False
    ) -> Claim:
        """Returns a claim on so much of the device's memory.

        Raises LimitExceededError for more bytes than the device holds, and ServerBusyError if too many calls wait.
        """
        self._asks(caller)
        memory = self.room(is_small).memory
        check_size(size_bytes, memory.limit)
        if size_bytes > (limit := self.bounds(caller).size_bytes):
            raise _too_large(size_bytes, limit)
        # The reply of a small call has no claim of its own, and its client decides when it is fetched.
        return await memory.take(caller, size_bytes, waits_for_client or (is_small and self.has_small))

    async def reply(self, caller: str, size_bytes: int) -> Claim:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        return await self.large.replies.take(caller, size_bytes, waits_for_client=True)

    async def message(self, caller: str, size_bytes: int) -> Claim:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        self._asks(caller)
        return await self.large.messages.take(caller, size_bytes, waits_for_client=True)

    async def place(self, caller: str, most: int = 1, is_small: bool = False) -> Claim:
        """Returns a claim on a place to run, and on up to `most` that nobody waits for.

        Raises ServerBusyError if too many calls wait already.
        """
        self._asks(caller)
        return await self.room(is_small).place(caller, most)

    def sweep(self) -> None:
        """Serves calls that waited because others asked, if these have stopped. To be called some times a second."""
        self._forget()
        for gate in self._gates:
            gate.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends the wait of every call, now and later: what runs on a lost device may never end."""
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
        rooms = self.rooms.values()
        claimed = sum(room.memory.used for room in rooms)
        return Occupancy(sum(room.places.used for room in rooms), sum(room.waiting_count for room in rooms), claimed)

    @property
    def utilization(self) -> float:
        """Running and waiting calls per place, in the room that is used most."""
        return max((room.places.used + room.waiting_count) / room.running_limit for room in self.rooms.values())

    @property
    def refusals(self) -> int:
        """How many calls found the queue full."""
        return sum(room.refusals for room in self.rooms.values())

    @property
    def share_refusals(self) -> int:
        """How many came from a caller that had its share of the queue."""
        return sum(room.share_refusals for room in self.rooms.values())

    @property
    def replies(self) -> Gate:
        """The memory of replies that clients have not fetched, but for those of small calls."""
        return self.large.replies

    @property
    def asking_count(self) -> int:
        """How many callers count as ones that ask."""
        return len(self._seen)

    def waiting(self, caller: str) -> int:
        """Returns how many calls of the caller wait, for whatever."""
        return sum(len(gate.queues.get(caller, ())) for gate in self._gates)

    def others_ask(self, caller: str) -> bool:
        """Returns whether another caller asked within `ASKING_S`, or waits."""
        known: list[Mapping[str, Any]] = [self._seen, *(gate.queues for gate in self._gates)]
        return any(len(callers) > (caller in callers) for callers in known)

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
