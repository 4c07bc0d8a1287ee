"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.gate import Bounds, Callers, Claim, Gate, Pace, Queue
from aclgrad_server.devices.planning import check_size
from aclgrad_server.limits import LONGEST_PAUSE_S, MAX_WAITING_SMALL_CALLS, RECEIVE_BYTES_PER_S, SMALL_BYTES

_NO_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


class Room(Queue):
    """Slots to run, memory of the device and a queue that calls of one kind share and calls of no other kind take."""

    def __init__(
        self,
        callers: Callers,
        running_limit: int,
        waiting_limit: int,
        bytes_limit: int,
        is_paced: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(callers, running_limit, waiting_limit, is_paced, clock)
        self.slots = Gate(running_limit, running_limit - 1, self, counts_bytes=False)
        self.memory = Gate(bytes_limit, bytes_limit // 2, self)


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limit` bytes, and `waiting_limit` more wait.

    Small calls have a room of their own with `small_limit` slots, which other calls never take, not even those of the
    same caller: many clients may share an address. Without slots for them, they are calls like all others.

    Calls claim memory, then a slot to run, so they never wait for each other in a circle. While others ask, a caller
    gets no more than half of a memory, half of a queue and all slots but one.
    """

    def __init__(
        self,
        running_limit: int,
        waiting_limit: int,
        bytes_limit: int = sys.maxsize,
        clock: Callable[[], float] = time.monotonic,
        reply_limit: int = sys.maxsize,
        bounds: Callable[[str], Bounds] | None = None,
        small_limit: int = 0,
    ) -> None:
        """`bounds` returns a caller's fixed limits; by default there are none."""
        self.callers = callers = Callers(bounds or (lambda caller: _NO_BOUNDS), clock)
        self._clock = clock
        self.large = self.small = large = Room(callers, running_limit, waiting_limit, bytes_limit, clock=clock)
        self.rooms = {"large": large}
        self.has_small = bool(small_limit)
        if small_limit:
            small_bytes = SMALL_BYTES * (small_limit + MAX_WAITING_SMALL_CALLS)
            self.small = small = Room(callers, small_limit, MAX_WAITING_SMALL_CALLS, small_bytes, True, clock)
            large.memory.other, small.memory.other = small.memory, large.memory
            self.rooms["small"] = small
        self.replies = Gate(reply_limit, reply_limit // 2, large)
        """The memory of replies that clients have not fetched, but for those of small calls."""
        self._messages = Gate(reply_limit, reply_limit // 2, large)  # what compressed messages become
        of_rooms = [gate for room in self.rooms.values() for gate in (room.slots, room.memory)]
        self._gates = [*of_rooms, self.replies, self._messages]
        self._receiving = Pace(RECEIVE_BYTES_PER_S, LONGEST_PAUSE_S, clock)

    async def memory(
        self, caller: str, size_bytes: int, waits_for_client: bool = False, is_small: bool = False
    ) -> Claim:
        """Returns a claim on so much of the device's memory.

        Raises LimitExceededError for more bytes than the device holds, and ServerBusyError if too many calls wait.
        """
        self.callers.ask(caller)
        memory = (self.small if is_small else self.large).memory
        check_size(size_bytes, memory.limit)
        if size_bytes > (limit := self.callers.bounds(caller).size_bytes):
            raise _too_large(size_bytes, limit)
        # The reply of a small call has no claim of its own, and its client decides when it is fetched.
        return await memory.take(caller, size_bytes, waits_for_client or (is_small and self.has_small))

    async def reply(self, caller: str, size_bytes: int) -> Claim:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        return await self.replies.take(caller, size_bytes, waits_for_client=True)

    async def message(self, caller: str, size_bytes: int) -> Claim:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        self.callers.ask(caller)
        return await self._messages.take(caller, size_bytes, waits_for_client=True)

    async def slot(self, caller: str, most: int = 1, is_small: bool = False) -> Claim:
        """Returns a claim on a slot to run, and on up to `most` that nobody waits for.

        Raises ServerBusyError if too many calls wait already.
        """
        self.callers.ask(caller)
        slots = (self.small if is_small else self.large).slots
        claim = await slots.take(caller, 1)
        slots.widen(claim, most)
        claim.since = self._clock()
        return claim

    def ran(self, slot: Claim, is_small: bool) -> None:
        """Gives back the slot of a call that has run."""
        (self.small if is_small else self.large).ran(slot)

    def sweep(self) -> None:
        """Serves calls that waited because others asked, if these have stopped. To be called some times a second."""
        self.callers.forget()
        for gate in self._gates:
            gate.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends the wait of every call, now and later: what runs on a lost device may never end."""
        for gate in self._gates:
            gate.lose(new_error)

    def receive_delay_s(self, caller: str) -> float:
        """Returns how long the next message of the caller is to wait while others ask; at most 0 for no wait."""
        return self._receiving.delay_s(caller) if self.callers.others_ask(caller) else 0.0

    def received(self, caller: str, size_bytes: int) -> None:
        """Counts a message that was received."""
        self._receiving.spend(caller, size_bytes)

    def occupancy(self) -> Occupancy:
        """Returns what is in use; any thread may ask."""
        rooms = self.rooms.values()
        claimed = sum(room.memory.used for room in rooms)
        return Occupancy(sum(room.slots.used for room in rooms), sum(room.waiting_count for room in rooms), claimed)

    @property
    def utilization(self) -> float:
        """Running and waiting calls per slot, in the room that is used most."""
        return max((room.slots.used + room.waiting_count) / room.running_limit for room in self.rooms.values())

    @property
    def refusals(self) -> int:
        """How many calls found the queue full."""
        return sum(room.refusals for room in self.rooms.values())

    @property
    def share_refusals(self) -> int:
        """How many came from a caller that had its share of the queue."""
        return sum(room.share_refusals for room in self.rooms.values())


def _too_large(size_bytes: int, limit: int) -> LimitExceededError:
    problem = f"takes {size_bytes} bytes and this identity may have {limit} at most"
    metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
    remedy = "send smaller tensors or fewer calls, or ask for a larger max_bytes in the server's identities"
    return LimitExceededError.at("call", problem, remedy, metadata)
