"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers. No locks.

A caller is an identity if the server has identities, and an address otherwise.
"""

import asyncio
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aclgrad.errors import AclgradError, LimitExceededError, ServerBusyError
from aclgrad_server.calls.pace import Pace
from aclgrad_server.limits import ASKING_S, RECEIVE_BYTES_PER_S
from aclgrad_server.plan import check_size

RETRY_AFTER_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one caller may have whether or not others ask, and its turns in each round of those that wait."""

    turns: int = 1
    size_bytes: int = sys.maxsize  # on each device, and of replies
    waiting: int = sys.maxsize


_NO_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


@dataclass(slots=True, eq=False)
class Claim:
    """Units of one gate that one call holds. Give them back once, in one or several parts."""

    gate: "Gate"
    caller: str
    units: int
    waits_for_client: bool = False
    """Whether its client decides how long it is held: then it counts against the share also while nobody else asks."""
    is_granted: bool = False
    waiter: Any = None  # the future of a claim that has to wait

    def give_back(self, units: int | None = None) -> None:
        """Gives back so many units, or all that are left."""
        part = self.units if units is None else min(units, self.units)
        if part > 0:
            self.units -= part
            self.gate.give_back(self.caller, part)


class Gate:
    """Gives out up to `limit` units, which are bytes or places.

    The callers that wait take turns, each in its order of arrival, and nobody overtakes a claim that waits for room.
    While several callers ask, one that already holds something gets no more than `share` units. What waits for a client
    is so bounded at all times: else a slow one could hold all, and who asks next would wait for it.
    """

    def __init__(self, limit: int, share: int, admission: "Admission", counts_bytes: bool = True) -> None:
        self.limit = limit
        self.used = 0
        self.queues: OrderedDict[str, deque[Claim]] = OrderedDict()
        self.waiting_count = 0
        self._share = max(1, share)
        self._admission = admission
        self._counts_bytes = counts_bytes
        self._held: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        """How many turns each caller that waits has had in this round."""
        self._loss: Callable[[], AclgradError] | None = None

    def order(self, units: int) -> tuple[bool, bool, int]:
        """Sorts gates: those with room come first, then those with few units claimed, and last those too small."""
        if units > self.limit:
            return True, True, -self.limit
        waiting = sum(claim.units for queue in self.queues.values() for claim in queue)
        return False, not self._has_room(units), self.used + waiting

    async def take(self, caller: str, units: int, waits_for_client: bool = False) -> Claim:
        """Returns the claim when it is served; raises ServerBusyError if too many calls wait already."""
        if self._loss is not None:
            raise self._loss()
        claim = Claim(self, caller, units, waits_for_client)
        if self._has_room(units) and not self._exceeds_share(claim):
            self._grant(claim)
            return claim
        self._admission.check_queue(caller)
        claim.waiter = asyncio.get_running_loop().create_future()
        self.queues.setdefault(caller, deque()).append(claim)
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

    def give_back(self, caller: str, units: int) -> None:
        self.used -= units
        self._held[caller] -= units
        if not self._held[caller]:
            del self._held[caller]
        self.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends every wait, now and later, with an error of its own."""
        self._loss = new_error
        for queue in self.queues.values():
            for claim in queue:
                if not claim.waiter.done():
                    claim.waiter.set_exception(new_error())

    def serve(self) -> None:
        """Grants what there is room for."""
        while claim := self._next():
            self._leave(claim)
            self._end_turn(claim.caller)
            self._grant(claim)
            # The waiting task may be cancelled and not yet know; it gives the claim back when it runs.
            if not claim.waiter.done():
                claim.waiter.set_result(None)

    def _has_room(self, units: int) -> bool:
        return not self.queues and self.used + units <= self.limit

    def _exceeds_share(self, claim: Claim) -> bool:
        held = self._held.get(claim.caller, 0)
        if not held:
            return False
        if self._counts_bytes and held + claim.units > self._admission.bounds(claim.caller).size_bytes:
            return True
        return held + claim.units > self._share and (claim.waits_for_client or self._admission.others_ask(claim.caller))

    def _end_turn(self, caller: str) -> None:
        """Lets the next caller have its turn when this one has had all of its own."""
        turns = self._turns.pop(caller, 0) + 1
        if caller not in self.queues:
            return
        if turns < self._admission.bounds(caller).turns:
            self._turns[caller] = turns
        else:
            self.queues.move_to_end(caller)

    def _grant(self, claim: Claim) -> None:
        claim.is_granted = True
        self.used += claim.units
        if claim.units:
            self._held[claim.caller] = self._held.get(claim.caller, 0) + claim.units

    def _next(self) -> Claim | None:
        """Returns the claim whose turn it is, if there is room for it."""
        for queue in self.queues.values():
            claim = queue[0]
            if not self._exceeds_share(claim):
                return claim if self.used + claim.units <= self.limit else None
        return None

    def _leave(self, claim: Claim) -> None:
        queue = self.queues[claim.caller]
        queue.remove(claim)
        self.waiting_count -= 1
        if not queue:
            del self.queues[claim.caller]


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
        self._receiving = Pace(RECEIVE_BYTES_PER_S, clock)

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
