"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between addresses.

Everything happens on the event loop, so there are no locks.
"""

import asyncio
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aclgrad.errors import AclgradError, LimitExceededError, ServerBusyError, Violation
from aclgrad_server.limits import ASKING_S, LONGEST_PAUSE_S, RECEIVE_BYTES_PER_S

RETRY_AFTER_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


class Claim:
    """Units of one gate that one call holds. Give them back once, in one or several parts."""

    __slots__ = ("_gate", "address", "is_granted", "units", "waiter")

    def __init__(self, gate: "Gate", address: str, units: int) -> None:
        self._gate = gate
        self.address = address
        self.units = units
        self.is_granted = False
        self.waiter: asyncio.Future[None] | None = None

    def give_back(self, units: int | None = None) -> None:
        """Gives back so many units, or all that are left."""
        part = self.units if units is None else min(units, self.units)
        if part > 0:
            self.units -= part
            self._gate.give_back(self.address, part)


class Gate:
    """Gives out up to `limit` units.

    The addresses that wait take turns, and each is served in its order of arrival. Nobody overtakes a claim that waits
    for room, so small claims cannot delay a large one for ever. While several addresses ask, one that already
    holds something gets no more than `share` units.
    """

    def __init__(self, limit: int, share: int, addresses: "Addresses") -> None:
        self.limit = limit
        self.used = 0
        self.waiting_count = 0
        self._share = max(1, share)
        self._addresses = addresses
        self._held: dict[str, int] = {}
        self._queues: OrderedDict[str, deque[Claim]] = OrderedDict()
        self._loss: Callable[[], AclgradError] | None = None

    def has_room(self, units: int) -> bool:
        return not self._queues and self.used + units <= self.limit

    def claimed(self) -> int:
        return self.used + sum(claim.units for queue in self._queues.values() for claim in queue)

    async def take(self, address: str, units: int) -> Claim:
        """Returns the claim when it is served; raises ServerBusyError if too many calls wait already."""
        if self._loss is not None:
            raise self._loss()
        claim = Claim(self, address, units)
        if self.has_room(units) and not self._exceeds_share(claim):
            self._grant(claim)
            return claim
        self._addresses.check_queue(address)
        claim.waiter = asyncio.get_running_loop().create_future()
        self._queues.setdefault(address, deque()).append(claim)
        self._addresses.waits(address, 1)
        self.waiting_count += 1
        self.serve()
        try:
            await claim.waiter
        except BaseException:
            if claim.is_granted:
                claim.give_back()
            else:
                self._leave(claim)
                # It may have been what the others waited behind.
                self.serve()
            raise
        return claim

    def give_back(self, address: str, units: int) -> None:
        self.used -= units
        self._held[address] -= units
        if not self._held[address]:
            del self._held[address]
        self.serve()

    def _exceeds_share(self, claim: Claim) -> bool:
        held = self._held.get(claim.address, 0)
        return held > 0 and held + claim.units > self._share and self._addresses.others_ask(claim.address)

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends every wait, now and later, with an error of its own."""
        self._loss = new_error
        for queue in self._queues.values():
            for claim in queue:
                if claim.waiter is not None and not claim.waiter.done():
                    claim.waiter.set_exception(new_error())

    def serve(self) -> None:
        """Grants what there is room for."""
        while claim := self._next():
            self._leave(claim)
            if claim.address in self._queues:
                self._queues.move_to_end(claim.address)
            self._grant(claim)
            # The waiting task may be cancelled and not yet know; it gives the claim back when it runs.
            if claim.waiter is not None and not claim.waiter.done():
                claim.waiter.set_result(None)

    def _grant(self, claim: Claim) -> None:
        claim.is_granted = True
        self.used += claim.units
        if claim.units:
            self._held[claim.address] = self._held.get(claim.address, 0) + claim.units

    def _next(self) -> Claim | None:
        """Returns the claim whose turn it is, if there is room for it."""
        for queue in self._queues.values():
            claim = queue[0]
            if not self._exceeds_share(claim):
                return claim if self.used + claim.units <= self.limit else None
        return None

    def _leave(self, claim: Claim) -> None:
        queue = self._queues[claim.address]
        queue.remove(claim)
        if not queue:
            del self._queues[claim.address]
        self._addresses.waits(claim.address, -1)
        self.waiting_count -= 1


class Addresses:
    """Which addresses ask, and how many calls of each one wait."""

    def __init__(self, running_limit: int, waiting_limit: int, clock: Callable[[], float]) -> None:
        self.running_limit = running_limit
        self.waiting_limit = waiting_limit
        self._clock = clock
        self._waiting: dict[str, int] = {}
        self._seen: OrderedDict[str, float] = OrderedDict()
        """When each address asked last, the oldest first."""
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """Until when the messages of each address use up its share of the event loop's time."""

    def asks(self, address: str) -> None:
        self._seen[address] = self._clock()
        self._seen.move_to_end(address)
        self.forget()

    def forget(self) -> None:
        """Forgets addresses that have not asked for `ASKING_S`."""
        oldest = self._clock() - ASKING_S
        while self._seen and next(iter(self._seen.values())) < oldest:
            self._seen.popitem(last=False)

    @property
    def asking_count(self) -> int:
        return len(self._seen)

    def others_ask(self, address: str) -> bool:
        """Returns whether another address asked within `ASKING_S`, or waits."""
        return any(len(known) > (address in known) for known in (self._seen, self._waiting))

    def receive_delay_s(self, address: str) -> float:
        """Returns how long the next message of the address is to wait while others ask; at most 0 for no wait."""
        free_at = self._free_at.get(address)
        return 0.0 if free_at is None or not self.others_ask(address) else free_at - self._clock()

    def received(self, address: str, size_bytes: int) -> None:
        now = self._clock()
        free_at = max(now, self._free_at.get(address, 0.0)) + size_bytes / RECEIVE_BYTES_PER_S
        self._free_at[address] = min(free_at, now + LONGEST_PAUSE_S)
        self._free_at.move_to_end(address)
        while next(iter(self._free_at.values())) < now:
            self._free_at.popitem(last=False)

    def waits(self, address: str, change: int) -> None:
        count = self._waiting.get(address, 0) + change
        if count:
            self._waiting[address] = count
        else:
            del self._waiting[address]

    def check_queue(self, address: str) -> None:
        """Raises ServerBusyError if one more call of the address may not wait."""
        if sum(self._waiting.values()) >= self.waiting_limit:
            raise _busy("the server", self.running_limit + self.waiting_limit)
        share = max(1, self.waiting_limit // 2)
        if self._waiting.get(address, 0) >= share and self.others_ask(address):
            raise _busy("this client", self.running_limit + share)


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limits` bytes on each device, and `waiting_limit` more wait.

    Memory is claimed before a place to run, and whoever runs has all it needs, so calls never wait for each other in a
    circle. One address gets no more than half of a memory, half of the queue and all places but one while others ask.
    """

    def __init__(
        self,
        running_limit: int,
        waiting_limit: int,
        bytes_limits: Sequence[int] = (sys.maxsize,),
        clock: Callable[[], float] = time.monotonic,
        reply_limit: int = sys.maxsize,
    ) -> None:
        self._addresses = Addresses(running_limit, waiting_limit, clock)
        self._replies = Gate(reply_limit, reply_limit // 2, self._addresses)
        self._places = Gate(running_limit, running_limit - 1, self._addresses)
        self._memories = tuple(Gate(limit, limit // 2, self._addresses) for limit in bytes_limits)

    @property
    def running_limit(self) -> int:
        return self._places.limit

    @property
    def waiting_limit(self) -> int:
        return self._addresses.waiting_limit

    @property
    def bytes_limit(self) -> int:
        return sum(memory.limit for memory in self._memories)

    async def memory(self, address: str, size_bytes: int) -> tuple[int, Claim]:
        """Returns the index of a device and a claim on so much of its memory.

        It is the device with the fewest bytes claimed, of those that have room at once if there are any. Raises
        LimitExceededError for more bytes than any device holds, and ServerBusyError if too many calls wait already.
        """
        self._addresses.asks(address)
        index = _choose(self._memories, size_bytes)
        memory = self._memories[index]
        check_size(size_bytes, memory.limit)
        return index, await memory.take(address, size_bytes)

    async def reply(self, address: str, size_bytes: int) -> Claim:
        """Returns a claim on memory of the process for a reply; raises ServerBusyError if too many calls wait."""
        return await self._replies.take(address, size_bytes)

    async def place(self, address: str) -> Claim:
        """Returns a claim on a place to run; raises ServerBusyError if too many calls wait already."""
        self._addresses.asks(address)
        return await self._places.take(address, 1)

    def sweep(self) -> None:
        """Serves calls that waited because others asked, if these have stopped. To be called some times a second."""
        self._addresses.forget()
        for gate in (self._places, self._replies, *self._memories):
            gate.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends the wait of every call, now and later: what runs on a device that is lost may never end."""
        for gate in (self._places, self._replies, *self._memories):
            gate.lose(new_error)

    def receive_delay_s(self, address: str) -> float:
        """Returns how long the next message of the address is to wait before it is received."""
        return self._addresses.receive_delay_s(address)

    def received(self, address: str, size_bytes: int) -> None:
        """Counts a message that was received."""
        self._addresses.received(address, size_bytes)

    @property
    def asking_count(self) -> int:
        """How many addresses count as ones that ask."""
        return self._addresses.asking_count

    def occupancy(self) -> Occupancy:
        waiting = self._places.waiting_count + self._replies.waiting_count
        waiting += sum(memory.waiting_count for memory in self._memories)
        return Occupancy(self._places.used, waiting, sum(memory.used for memory in self._memories))


def _choose(gates: Sequence[Gate], units: int) -> int:
    """Returns the index of the gate with the fewest units claimed; one with room comes first, one too small last."""
    if len(gates) == 1:
        return 0

    def order(index: int) -> tuple[bool, bool, int, int]:
        gate = gates[index]
        is_too_small = units > gate.limit
        return is_too_small, not gate.has_room(units), -gate.limit if is_too_small else gate.claimed(), index

    return min(range(len(gates)), key=order)


def check_size(size_bytes: int, limit: int) -> None:
    """Raises LimitExceededError for a call that no device's pool can hold."""
    if size_bytes <= limit:
        return
    problem = f"takes {size_bytes} bytes and the memory pool of a device holds {limit} at most"
    remedy = "send smaller tensors or fewer calls, or raise --pool-bytes (ACLGRAD_POOL_BYTES) of the server"
    metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
    raise LimitExceededError.of(Violation("call", problem, remedy), metadata=metadata)


def _busy(who: str, limit: int) -> ServerBusyError:
    remedy = f"try again in {RETRY_AFTER_S} s"
    return ServerBusyError(
        f"{who} has as many calls in flight and waiting as it may have, {limit}; {remedy}",
        remedy=remedy,
        retry_after_s=RETRY_AFTER_S,
        metadata={"limit": str(limit)},
    )
