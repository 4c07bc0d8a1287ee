"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.bounds import Bounds
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Callers, Claim, Gate, Room
from aclgrad_server.calls.open_calls import Throttle
from aclgrad_server.devices.device import OnEnd
from aclgrad_server.devices.planning import check_size
from aclgrad_server.limits import LONG_S, LONGEST_PAUSE_S, MAX_WAITING_SMALL_CALLS, RECEIVE_BYTES_PER_S, SMALL_BYTES
from aclgrad_server.statistics import WAIT

_NO_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


@dataclass(slots=True)
class Demand:
    """A program's request to admission; sequences have one number for each group."""

    device: Sequence[int]  # bytes of the device while the group runs, workspaces included
    process: Sequence[int]  # bytes of the process for inputs that it checks or has encoded
    replied: Sequence[int]  # bytes of the reply before the first group, after it, after the next, and so on
    workspace_bytes: int  # the part of `device` that is for workspaces
    reply_bytes: int  # of messages that wait for the client, or are on their way in chunks
    seconds: float  # about how long it takes
    is_small: bool = False  # whether small programs may wait for it; its workspaces do not count
    waits_for_client: bool = False  # whether its client decides how long it takes
    longest_s: float = 0.0  # about how long the longest group takes

    @property
    def takes_little(self) -> bool:
        """Whether it takes the memory reserved for small programs, and not only their slots."""
        return self.is_small and self.device[0] + self.process[0] <= SMALL_BYTES


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limit` bytes, and `waiting_limit` more wait.

    Small calls have as many slots of their own, which large calls never take, not even those of the same caller: many
    clients may share an address.

    Programs claim memory, then a slot, so they never deadlock. While others ask, a caller gets at most half of a
    memory, half of a queue and all slots but one.
    """

    def __init__(
        self,
        running_limit: int,
        waiting_limit: int,
        bytes_limit: int = sys.maxsize,
        clock: Callable[[], float] = time.monotonic,
        reply_limit: int = sys.maxsize,
        bounds: Callable[[str], Bounds] | None = None,
        checked_limit: int | None = None,
    ) -> None:
        """`bounds` returns a caller's fixed limits; by default there are none.

        `checked_limit` bounds inputs that the process keeps to check them; by default they count as tensors, because
        the device then computes in the process.
        """
        self.callers = callers = Callers(bounds or (lambda caller: _NO_BOUNDS), clock)
        self.large = large = Room(callers, running_limit, waiting_limit, bytes_limit, clock)
        small_bytes = SMALL_BYTES * (running_limit + MAX_WAITING_SMALL_CALLS)
        self.small = small = Room(callers, running_limit, MAX_WAITING_SMALL_CALLS, small_bytes, clock, is_paced=True)
        large.memory.other, small.memory.other = small.memory, large.memory
        self.rooms = {"large": large, "small": small}
        self.replies = Gate(reply_limit, reply_limit // 2, large)
        """The memory of replies that clients have not fetched, small calls' replies excepted."""
        self._checked = None if checked_limit is None else Gate(checked_limit, checked_limit // 2, large)
        gates = large.slots, large.memory, small.slots, small.memory, self.replies, self._checked
        self._gates = [each for each in gates if each is not None]
        self._receiving = Throttle(RECEIVE_BYTES_PER_S, LONGEST_PAUSE_S, clock)

    def room(self, is_small: bool) -> Room:
        return self.small if is_small else self.large

    def check(self, caller: str, size_bytes: int, workspace_bytes: int = 0, room: Room | None = None) -> None:
        """Raises LimitExceededError if the size exceeds what the caller or any call may have of the device's memory."""
        check_size(size_bytes, (room or self.large).memory.limit, workspace_bytes)
        self._check_bounds(caller, size_bytes)

    def device_bytes(self, tensor_bytes: int, checked_bytes: int) -> int:
        """Returns the bytes of device memory that tensors and checked inputs take."""
        return tensor_bytes + (checked_bytes if self._checked is None else 0)

    async def claim(self, call: Call, demand: Demand) -> "Claims":
        """Claims the device's memory, and the process's for inputs that are checked or encoded.

        Raises LimitExceededError for more than there is, and ServerBusyError if too many calls wait. A program that
        waits for the process's memory holds none of the device's. Small programs' inputs count as tensors, so that they
        never wait for large programs.
        """
        call.enter(WAIT)
        takes_little = demand.takes_little
        room, memory_room = self.room(demand.is_small), self.room(takes_little)
        claims = Claims(self, call, demand, room, memory_room)
        room.expected_s += demand.seconds
        try:
            process_bytes = max(demand.process)
            if process_bytes and (self._checked is None or takes_little):
                claims.needs = [sum(each) for each in zip(demand.device, demand.process, strict=True)]
            elif process_bytes:
                claims.process = await self._claim_checked(call.caller, process_bytes, demand.waits_for_client)
            size_bytes = max(claims.needs)
            self.callers.ask(call.caller)
            self.check(call.caller, size_bytes, demand.workspace_bytes, memory_room)
            # A small call's reply has no claim of its own, and its client decides when to fetch it.
            waits_for_client = demand.waits_for_client or takes_little
            claims.memory = await memory_room.memory.take(call.caller, size_bytes, waits_for_client)
            # Even a few bytes count if the client decides how long they stay.
            if demand.reply_bytes > (0 if demand.waits_for_client else SMALL_BYTES):
                await self.claim_reply(call, demand.reply_bytes)
        except BaseException:
            claims.close()
            raise
        return claims

    async def _claim_checked(self, caller: str, size_bytes: int, waits_for_client: bool) -> Claim:
        assert self._checked is not None
        if size_bytes > (limit := self._checked.limit):
            problem = f"has inputs of {size_bytes} bytes to check and the process may keep {limit} at most"
            remedy = "send smaller tensors, or raise --memory-limit-bytes (ACLGRAD_MEMORY_LIMIT_BYTES) of the server"
            raise _beyond(size_bytes, limit, problem, remedy)
        self._check_bounds(caller, size_bytes)
        return await self._checked.take(caller, size_bytes, waits_for_client)

    async def claim_reply(self, call: Call, size_bytes: int) -> None:
        """Claims memory of the process for a reply until the call ends; raises ServerBusyError if too many wait."""
        call.at_end((await self.replies.take(call.caller, size_bytes, may_last=True)).give_back)

    def sweep(self) -> None:
        """Serves calls that waited because others asked, once those have stopped. Call it several times a second."""
        self.callers.forget()
        for gate in self._gates:
            gate.serve()

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        for gate in self._gates:
            gate.lose(new_error)

    def receive_delay_s(self, caller: str) -> float:
        """Returns how long the next message of the caller is to wait while others ask; at most 0 for no wait."""
        delay_s = self._receiving.delay_s(caller)
        return delay_s if delay_s > 0 and self.callers.others_ask(caller) else 0.0

    def received(self, caller: str, size_bytes: int, seconds: float = 0.0) -> None:
        """Counts a message that was read for so long."""
        self._receiving.spend(caller, size_bytes, seconds)

    def occupancy(self) -> Occupancy:
        """Returns what is in use; any thread may ask."""
        rooms = self.rooms.values()
        claimed = sum(room.memory.used for room in rooms)
        return Occupancy(sum(room.slots.used for room in rooms), sum(room.waiting_count for room in rooms), claimed)

    @property
    def checked_bytes(self) -> int:
        """The process's memory for inputs that it checks or has encoded; 0 if they count as tensors."""
        return 0 if self._checked is None else self._checked.used

    @property
    def utilization(self) -> float:
        """Running and waiting calls per slot, of small or of large calls, whichever is more."""
        return max((room.slots.used + room.waiting_count) / room.running_limit for room in self.rooms.values())

    @property
    def refusals(self) -> Counter[str]:
        """How many calls were refused, by cause."""
        found: Counter[str] = Counter()
        for room in self.rooms.values():
            found.update(room.refusals)
        return found

    def _check_bounds(self, caller: str, size_bytes: int) -> None:
        if size_bytes > (limit := self.callers.bounds(caller).size_bytes):
            problem = f"takes {size_bytes} bytes and this identity may have {limit} at most"
            remedy = "send smaller tensors or fewer calls, or ask for a larger max_bytes in the server's identities"
            raise _beyond(size_bytes, limit, problem, remedy)


class Claims:
    """The claims of one program, given back as its groups end on the device.

    Only the device library knows how large a workspace is, and only when a step is about to run. A program claims what
    the library asked for earlier steps of the same forms. If that is too little and the rest is free, the program takes
    it and the group begins again. Otherwise it ends as busy, because a program that holds memory must not wait; the
    next program with this form claims enough from the beginning.
    """

    def __init__(self, admission: Admission, call: Call, demand: Demand, room: Room, memory_room: Room) -> None:
        self.needs: Sequence[int] = demand.device
        self.memory: Claim | None = None
        self.process: Claim | None = None
        self._admission = admission
        self._call = call
        self._demand = demand
        self._room = room
        self._memory_room = memory_room
        self._more: list[Claim] = []
        self._workspace_bytes = demand.workspace_bytes
        self._begun = 0
        """How many groups have begun."""
        self._running: list[tuple[int, int]] = []
        """The bytes of the device and of the process that each group needs until the device has ended it."""
        self._is_closed = False

    def hold(self) -> OnEnd:
        """Keeps all claims until the returned function is called: some tensors outlive their groups."""
        return self._begin(max(self.needs), max(self._demand.process))

    async def turn(self, most: int = 1, group: int = 0) -> "Turn":
        """Returns the group's slot to run, and up to `most` slots if nobody waits for them."""
        slot = await self._room.slot(self._call.caller, most, self._demand.longest_s > LONG_S)
        on_end = self._begin(self.needs[group], self._demand.process[group])
        self._begun = group + 1
        return Turn(self._room, slot, on_end)

    def widen(self, workspace_bytes: int, largest_bytes: int) -> bool:
        """Returns whether this much is free for workspaces now, the largest of this size.

        Raises LimitExceededError for what no call may have.
        """
        more_bytes = workspace_bytes - self._workspace_bytes
        if more_bytes <= 0:
            return True
        size_bytes = max(self.needs) + workspace_bytes - self._demand.workspace_bytes
        caller = self._call.caller
        self._admission.check(caller, size_bytes, largest_bytes)
        room = self._memory_room if size_bytes <= SMALL_BYTES else self._admission.large
        claim = room.memory.take_at_once(caller, more_bytes)
        if claim is None:
            room.refusals["workspace"] += 1
            return False
        self._more.append(claim)
        self._workspace_bytes = workspace_bytes
        return True

    def close(self) -> None:
        """Begins no more groups; the reply's memory is given back when the call ends."""
        self._is_closed = True
        self._settle()

    def _begin(self, device: int, process: int) -> OnEnd:
        needs = device, process
        self._running.append(needs)
        return partial(self._end, needs)

    def _end(self, needs: tuple[int, int]) -> None:
        self._running.remove(needs)
        self._settle()

    def _settle(self) -> None:
        """Gives back what neither the work under way nor the groups to come need."""
        begun, is_over = self._begun, self._is_closed and not self._running
        if not is_over and (len(self.needs) == 1 or len(self._running) > 1):
            return  # a single group needs all; abandoned work runs on beside later work
        parts = (self.memory, self.needs, self._demand.replied[begun]), (self.process, self._demand.process, 0)
        for index, (claim, needs, left) in enumerate(parts):
            if claim is not None:
                still = [left, *(each[index] for each in self._running)]
                claim.give_back(claim.units - max(still if self._is_closed else [*still, *needs[begun:]]))
                if is_over and claim.units:
                    self._call.at_end(claim.give_back)
        if is_over:
            self._room.expected_s -= self._demand.seconds
            for claim in self._more:
                claim.give_back()


class Turn:
    """A group's time on the device: it ends when all its attempts have ended there and its maker has called `end`."""

    def __init__(self, room: Room, slot: Claim, on_end: OnEnd) -> None:
        self.slots = slot.units
        self._room = room
        self._slot = slot
        self._on_end = on_end
        self._open = 1

    def attempt(self) -> OnEnd:
        self._open += 1
        return self.end

    def end(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._room.ran(self._slot)
            self._on_end()


def _beyond(size_bytes: int, limit: int, problem: str, remedy: str) -> LimitExceededError:
    return LimitExceededError.at("call", problem, remedy, {"size_bytes": str(size_bytes), "limit": str(limit)})
