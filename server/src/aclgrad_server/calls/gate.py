"""Gives out bytes or slots round-robin to the callers that wait. No locks.

A caller is an identity if the server has identities, and an address otherwise.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aclgrad.errors import AclgradError, ServerBusyError
from aclgrad_server.bounds import Bounds
from aclgrad_server.calls.call import busy
from aclgrad_server.limits import ASKING_S

RETRY_AFTER_S: Final = 0.1
LONGEST_RETRY_S: Final = 10.0
_WAIT_S: Final = 1.0  # length of a queue whose limit follows the pace of calls
_WEIGHT: Final = 1 / 16  # of the latest call in the mean run time


class Callers:
    """The callers that ask, their waiting claims, and their bounds."""

    def __init__(self, bounds: Callable[[str], Bounds], clock: Callable[[], float]) -> None:
        self.bounds = bounds
        self.waiting: Counter[str] = Counter()
        self._clock = clock
        self._asked_at: OrderedDict[str, float] = OrderedDict()  # the last time of each caller, the oldest first

    @property
    def asking_count(self) -> int:
        return len(self._asked_at)

    def ask(self, caller: str) -> None:
        """Counts a caller as asking for the next `ASKING_S`."""
        self._asked_at[caller] = self._clock()
        self._asked_at.move_to_end(caller)

    def others_ask(self, caller: str) -> bool:
        """Returns whether another caller asked within `ASKING_S`, or waits."""
        self.forget()
        asking, waiting = self._asked_at, self.waiting
        return len(asking) > (caller in asking) or len(waiting) > (caller in waiting)

    def forget(self) -> None:
        """Forgets callers that asked long ago. Call it several times a second."""
        oldest = self._clock() - ASKING_S
        while self._asked_at and next(iter(self._asked_at.values())) < oldest:
            self._asked_at.popitem(last=False)


class Room:
    """Slots, device memory and a queue for calls of one kind, small or large; the other kind never takes them.

    At most `waiting_limit` claims wait; with `is_paced`, at most as many as begin to run within a second.
    """

    def __init__(
        self,
        callers: Callers,
        running_limit: int,
        waiting_limit: int,
        bytes_limit: int,
        clock: Callable[[], float],
        is_paced: bool = False,
    ) -> None:
        self.callers = callers
        self.running_limit = running_limit
        self.waiting_count = 0
        self.refusals = Counter(queue=0, share=0, workspace=0)
        """How many calls found the queue full, or their caller's share of it, or no memory for their workspace."""
        self._waiting: Counter[str] = Counter()
        self.most_waiting = waiting_limit
        self._is_paced = is_paced
        self._clock = clock
        self._mean_run_s = 0.0
        self.expected_s = 0.0
        """The sum of the estimated times of the programs that wait or run here."""
        self.slots = Gate(running_limit, running_limit - 1, self, counts_bytes=False)
        self.memory = Gate(bytes_limit, bytes_limit // 2, self)

    @property
    def waiting_limit(self) -> int:
        if not self._is_paced or self._mean_run_s * self.most_waiting <= _WAIT_S * self.running_limit:
            return self.most_waiting
        return max(self.running_limit, int(_WAIT_S * self.running_limit / self._mean_run_s))

    def enter(self, caller: str) -> None:
        """Counts a waiting claim; raises ServerBusyError if the caller may not have one more."""
        limit, waiting = self.waiting_limit, self.callers.waiting
        if self.waiting_count >= limit:
            self.refusals["queue"] += 1
            raise self._busy("the server", limit)
        share, bound = max(1, limit // 2), self.callers.bounds(caller).waiting
        has_share = self._waiting[caller] >= share and self.callers.others_ask(caller)
        if waiting[caller] >= bound or has_share:
            self.refusals["share"] += 1
            raise self._busy("this client", min(share, bound))
        self.waiting_count += 1
        self._waiting[caller] += 1
        waiting[caller] += 1

    def leave(self, caller: str) -> None:
        self.waiting_count -= 1
        for waiting in (self._waiting, self.callers.waiting):
            waiting[caller] -= 1
            if not waiting[caller]:
                del waiting[caller]

    def _busy(self, who: str, waiting: int) -> ServerBusyError:
        limit = self.running_limit + waiting
        # Later if what runs and waits here is long.
        retry_after_s = round(min(max(RETRY_AFTER_S, self.expected_s / self.running_limit), LONGEST_RETRY_S), 1)
        problem = f"{who} has as many calls in flight and waiting as it may have, {limit}"
        return busy(problem, retry_after_s, limit=limit)

    async def slot(self, caller: str, most: int = 1, may_last: bool = False) -> "Claim":
        """Returns a claim on a slot to run, and on up to `most` slots if nobody waits for them.

        Raises ServerBusyError if too many calls wait already.
        """
        self.callers.ask(caller)
        claim = await self.slots.take(caller, 1, may_last)
        self.slots.widen(claim, most)
        claim.since = self._clock()
        return claim

    def ran(self, slot: "Claim") -> None:
        # A single long call says little about the next ones.
        run_s = min(self._clock() - slot.since, _WAIT_S)
        self._mean_run_s += _WEIGHT * (run_s - self._mean_run_s)
        slot.give_back()


@dataclass(slots=True, eq=False)
class Claim:
    """Units of one gate that one call holds, given back once, in one or several parts."""

    gate: "Gate"
    caller: str
    units: int
    may_last: bool = False
    """Whether it may be held long, by a client or a slow device; it then never exceeds the share."""
    is_granted: bool = False
    since: float = 0.0  # when what it is for began
    waiter: Any = None  # the future of a waiting claim

    def give_back(self, units: int | None = None) -> None:
        """Gives back this many units, or all that are left."""
        part = self.units if units is None else min(units, self.units)
        if part > 0:
            self.units -= part
            self.gate.give_back(self.caller, part)


class Gate:
    """Gives out up to `limit` units, which are bytes or slots.

    Waiting callers take turns in rounds, in their order of arrival, and nobody overtakes a waiting claim. While several
    callers ask, a caller that already holds units gets at most `share` units. A claim that may last long never exceeds
    the share: otherwise one slow client, or long kernels, could hold everything.
    """

    def __init__(self, limit: int, share: int, room: Room, counts_bytes: bool = True) -> None:
        self.limit = limit
        self.used = 0
        self.waiting_count = 0
        self.other: Gate | None = None
        """A gate whose units count with this one's towards a caller's fixed limit."""
        self._share = max(1, share)
        self._room = room
        self._callers = room.callers
        self._counts_bytes = counts_bytes
        self.held: dict[str, int] = {}
        """How many units each caller has."""
        self._waiting: OrderedDict[str, deque[Claim]] = OrderedDict()
        self._granted: dict[str, int] = {}
        """How many claims of each waiting caller were granted in this round."""
        self._loss: Callable[[], AclgradError] | None = None

    async def take(self, caller: str, units: int, may_last: bool = False) -> Claim:
        """Returns the claim once it is granted; raises ServerBusyError if too many calls wait already."""
        if self._loss is not None:
            raise self._loss()
        claim = Claim(self, caller, units, may_last)
        if self._fits(claim):
            self._grant(claim)
            return claim
        self._room.enter(caller)
        claim.waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(claim)
        self.waiting_count += 1
        self.serve()
        try:
            await claim.waiter
        except BaseException:
            if claim.is_granted:
                claim.give_back()
            else:
                self._leave(claim)
                # The others may have waited behind it.
                self.serve()
            raise
        return claim

    def take_at_once(self, caller: str, units: int) -> Claim | None:
        """Returns a claim without waiting; None if others wait, or if it does not fit."""
        claim = Claim(self, caller, units)
        if not self._fits(claim):
            return None
        self._grant(claim)
        return claim

    def widen(self, claim: Claim, most: int) -> None:
        """Adds units to a granted claim up to `most`, unless others wait for them."""
        while claim.units < most and self._fits(Claim(self, claim.caller, 1, claim.may_last)):
            claim.units += 1
            self.used += 1
            self.held[claim.caller] += 1

    def give_back(self, caller: str, units: int) -> None:
        self.used -= units
        self.held[caller] -= units
        if not self.held[caller]:
            del self.held[caller]
        self.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends every wait, now and later, with an error of its own."""
        self._loss = new_error
        for queue in self._waiting.values():
            for claim in queue:
                if not claim.waiter.done():
                    claim.waiter.set_exception(new_error())

    def serve(self) -> None:
        while self._waiting and (claim := self._next()):
            self._leave(claim)
            self._count_in_round(claim.caller)
            self._grant(claim)
            # The waiting task may be cancelled but not have run yet; it gives the claim back when it runs.
            if not claim.waiter.done():
                claim.waiter.set_result(None)

    def _fits(self, claim: Claim) -> bool:
        return not self._waiting and self.used + claim.units <= self.limit and not self._exceeds_share(claim)

    def _exceeds_share(self, claim: Claim) -> bool:
        caller = claim.caller
        held = self.held.get(caller, 0)
        in_all = held if self.other is None else held + self.other.held.get(caller, 0)
        if in_all and self._counts_bytes and in_all + claim.units > self._callers.bounds(caller).size_bytes:
            return True
        if not held or held + claim.units <= self._share:
            return False
        return claim.may_last or self._callers.others_ask(caller)

    def _count_in_round(self, caller: str) -> None:
        """Turns to the next caller once this one has had all its claims of the round."""
        granted = self._granted.pop(caller, 0) + 1
        if caller not in self._waiting:
            return
        if granted < self._callers.bounds(caller).per_round:
            self._granted[caller] = granted
        else:
            self._waiting.move_to_end(caller)

    def _grant(self, claim: Claim) -> None:
        claim.is_granted = True
        self.used += claim.units
        if claim.units:
            self.held[claim.caller] = self.held.get(claim.caller, 0) + claim.units

    def _next(self) -> Claim | None:
        """Returns the claim that comes next, if it fits."""
        for queue in self._waiting.values():
            claim = queue[0]
            if not self._exceeds_share(claim):
                return claim if self.used + claim.units <= self.limit else None
        return None

    def _leave(self, claim: Claim) -> None:
        queue = self._waiting[claim.caller]
        queue.remove(claim)
        self.waiting_count -= 1
        self._room.leave(claim.caller)
        if not queue:
            del self._waiting[claim.caller]
