"""Gives out bytes or places, in turns between the callers that wait."""

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from aclgrad.errors import AclgradError


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one caller may have whether or not others ask, and its turns in each round of those that wait."""

    turns: int = 1
    size_bytes: int = sys.maxsize  # of tensors on the device, and of replies
    waiting: int = sys.maxsize


class Callers(Protocol):
    """What gates ask about callers."""

    def bounds(self, caller: str, /) -> Bounds:
        """Returns what the caller may have."""

    def others_ask(self, caller: str, /) -> bool:
        """Returns whether another caller asks for something."""

    def check_queue(self, caller: str, /) -> None:
        """Raises ServerBusyError if one more call of the caller may not wait."""


@dataclass(slots=True, eq=False)
class Claim:
    """Units of one gate that one call holds. Give them back once, in one or several parts."""

    gate: "Gate"
    caller: str
    units: int
    waits_for_client: bool = False
    """Whether its client decides how long it is held: then it counts against the share also while nobody else asks."""
    is_granted: bool = False
    since: float = 0.0  # when what it is for began
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

    def __init__(self, limit: int, share: int, callers: "Callers", counts_bytes: bool = True) -> None:
        self.limit = limit
        self.used = 0
        self.queues: OrderedDict[str, deque[Claim]] = OrderedDict()
        self.waiting_count = 0
        self._share = max(1, share)
        self._callers = callers
        self._counts_bytes = counts_bytes
        self._held: dict[str, int] = {}
        self.other: Gate | None = None
        """A gate whose units count with those of this one for what a caller may have at all times."""
        self._turns: dict[str, int] = {}
        """How many turns each caller that waits has had in this round."""
        self._loss: Callable[[], AclgradError] | None = None

    async def take(self, caller: str, units: int, waits_for_client: bool = False) -> Claim:
        """Returns the claim when it is served; raises ServerBusyError if too many calls wait already."""
        if self._loss is not None:
            raise self._loss()
        claim = Claim(self, caller, units, waits_for_client)
        if self._has_room(units) and not self._exceeds_share(claim):
            self._grant(claim)
            return claim
        self._callers.check_queue(caller)
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

    def held_by(self, caller: str) -> int:
        """Returns how many units the caller has."""
        return self._held.get(caller, 0)

    def widen(self, claim: Claim, most: int) -> None:
        """Adds units that nobody waits for to a granted claim, until it has `most`."""
        while claim.units < most and self._has_room(1) and not self._exceeds_share(Claim(self, claim.caller, 1)):
            claim.units += 1
            self.used += 1
            self._held[claim.caller] += 1

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
        in_all = held + (0 if self.other is None else self.other.held_by(claim.caller))
        if not in_all:
            return False
        if self._counts_bytes and in_all + claim.units > self._callers.bounds(claim.caller).size_bytes:
            return True
        if not held:
            return False
        return held + claim.units > self._share and (claim.waits_for_client or self._callers.others_ask(claim.caller))

    def _end_turn(self, caller: str) -> None:
        """Lets the next caller have its turn when this one has had all of its own."""
        turns = self._turns.pop(caller, 0) + 1
        if caller not in self.queues:
            return
        if turns < self._callers.bounds(caller).turns:
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
