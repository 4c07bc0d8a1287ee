"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers."""

import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.gate import Bounds, Callers, Claim, Gate, Pace, Room
from aclgrad_server.devices.device import OnEnd
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.planning import check_size
from aclgrad_server.limits import LONGEST_PAUSE_S, MAX_WAITING_SMALL_CALLS, RECEIVE_BYTES_PER_S, SMALL_BYTES

_NO_BOUNDS: Final = Bounds()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limit` bytes, and `waiting_limit` more wait.

    Small calls have a room of their own with as many slots, which other calls never take, not even those of the same
    caller: many clients may share an address.

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
        checked_limit: int | None = None,
    ) -> None:
        """`bounds` returns a caller's fixed limits; by default there are none.

        `checked_limit` bounds inputs that the process keeps to check them; by default they count as tensors, which is
        right for a device that computes in the process.
        """
        self.callers = callers = Callers(bounds or (lambda caller: _NO_BOUNDS), clock)
        self._clock = clock
        self.large = large = Room(callers, running_limit, waiting_limit, bytes_limit, clock)
        small_bytes = SMALL_BYTES * (running_limit + MAX_WAITING_SMALL_CALLS)
        self.small = small = Room(callers, running_limit, MAX_WAITING_SMALL_CALLS, small_bytes, clock, is_paced=True)
        large.memory.other, small.memory.other = small.memory, large.memory
        self.rooms = {"large": large, "small": small}
        self.replies = Gate(reply_limit, reply_limit // 2, large)
        """The memory of replies that clients have not fetched, but for those of small calls."""
        self._messages = Gate(reply_limit, reply_limit // 2, large)  # what compressed messages become
        self._checked = None if checked_limit is None else Gate(checked_limit, checked_limit // 2, large)
        of_rooms = [gate for room in self.rooms.values() for gate in (room.slots, room.memory)]
        self._gates = [*of_rooms, self.replies, self._messages]
        if self._checked is not None:
            self._gates.append(self._checked)
        self._receiving = Pace(RECEIVE_BYTES_PER_S, LONGEST_PAUSE_S, clock)

    def memory(
        self,
        caller: str,
        size_bytes: int,
        waits_for_client: bool = False,
        is_small: bool = False,
        workspace_bytes: int = 0,
    ) -> Awaitable[Claim]:
        """Returns a claim on so much of the device's memory, this part of it as workspace.

        Raises LimitExceededError for more bytes than the device holds, and ServerBusyError if too many calls wait.
        """
        self.callers.ask(caller)
        memory = (self.small if is_small else self.large).memory
        check_size(size_bytes, memory.limit, workspace_bytes)
        if size_bytes > (limit := self.callers.bounds(caller).size_bytes):
            raise _too_large(size_bytes, limit)
        # The reply of a small call has no claim of its own, and its client decides when it is fetched.
        return memory.take(caller, size_bytes, waits_for_client or is_small)

    def split(self, tensor_bytes: int, checked_bytes: int) -> tuple[int, int]:
        """Returns what tensors and checked inputs take of the device's memory, and of the process's."""
        return (tensor_bytes + checked_bytes, 0) if self._checked is None else (tensor_bytes, checked_bytes)

    async def tensors(
        self,
        caller: str,
        tensor_bytes: int,
        checked_bytes: int,
        waits_for_client: bool = False,
        is_small: bool = False,
        workspace_bytes: int = 0,
    ) -> tuple[Claim, Claim | None]:
        """Returns claims on the device's memory, and on the process's for inputs that are checked or encoded.

        Raises as `memory` does. Whoever waits for the process's memory keeps none of the device's from others. Those of
        small calls count as tensors, so that these never wait for large ones.
        """
        of_device, of_process = self.split(tensor_bytes, checked_bytes)
        if is_small:
            of_device, of_process = of_device + of_process, 0
        how = waits_for_client, is_small, workspace_bytes
        if self._checked is None or of_process == 0:
            return await self.memory(caller, of_device, *how), None
        if of_process > self._checked.limit:
            raise _too_much_to_check(of_process, self._checked.limit)
        if of_process > (limit := self.callers.bounds(caller).size_bytes):
            raise _too_large(of_process, limit)
        checked = await self._checked.take(caller, of_process, waits_for_client)
        try:
            return await self.memory(caller, of_device, *how), checked
        except BaseException:
            checked.give_back()
            raise

    def workspace(
        self, caller: str, size_bytes: int, more_bytes: int, workspace_bytes: int, is_small: bool
    ) -> Claim | None:
        """Returns a claim on more of the device's memory for a call that has so much; None if others have it or wait.

        Raises LimitExceededError for what no call may have.
        """
        size_bytes += more_bytes
        check_size(size_bytes, self.large.memory.limit, workspace_bytes)
        if size_bytes > (limit := self.callers.bounds(caller).size_bytes):
            raise _too_large(size_bytes, limit)
        room = self.small if is_small and size_bytes <= SMALL_BYTES else self.large
        claim = room.memory.take_at_once(caller, more_bytes)
        room.refusals["workspace"] += claim is None
        return claim

    def reply(self, caller: str, size_bytes: int) -> Awaitable[Claim]:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        return self.replies.take(caller, size_bytes, waits_for_client=True)

    def message(self, caller: str, size_bytes: int) -> Awaitable[Claim]:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        self.callers.ask(caller)
        return self._messages.take(caller, size_bytes, waits_for_client=True)

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
        (self.small if is_small else self.large).ran(slot)

    def sweep(self) -> None:
        """Serves calls that waited because others asked, if these have stopped. To be called some times a second."""
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
        """What the process keeps of inputs that it checks or has encoded, unless they count as tensors."""
        return 0 if self._checked is None else self._checked.used

    @property
    def utilization(self) -> float:
        """Running and waiting calls per slot, in the room that is used most."""
        return max((room.slots.used + room.waiting_count) / room.running_limit for room in self.rooms.values())

    @property
    def refusals(self) -> Counter[str]:
        """How many calls were refused, by cause."""
        found: Counter[str] = Counter()
        for room in self.rooms.values():
            found.update(room.refusals)
        return found


class Attempts:
    """Attempts at running what has claimed so much; `on_end` is called once, when the device is done with all of them.

    Only the device library knows how large a workspace is, and only when a call is about to run. A call claims what the
    library asked for calls of its form before. If that is too little, the rest is taken if it is free at once, and the
    call begins again. Otherwise it ends as busy, because nobody waits who holds memory, and the next call of its form
    claims as much from the beginning. Whoever makes an object has to run it, once.
    """

    def __init__(self, admission: Admission, caller: str, size_bytes: int, is_small: bool, on_end: OnEnd) -> None:
        self._admission = admission
        self._caller = caller
        self._size_bytes = size_bytes
        self._is_small = is_small
        self._on_end = on_end
        self._more: list[Claim] = []
        self._open = 1

    async def run(self, workspace_bytes: int, attempt: Callable[[int, OnEnd], Awaitable[Result]]) -> Result:
        """Returns the result of an attempt that gets so much as workspace, or more."""
        try:
            while True:
                try:
                    return await attempt(workspace_bytes, self._begin())
                except WorkspaceShortageError as shortage:
                    needed_bytes = shortage.size_bytes
                    if not self._widen(needed_bytes - workspace_bytes, needed_bytes):
                        raise
                workspace_bytes = needed_bytes
        finally:
            self._end()

    async def run_all(
        self,
        workspaces: Sequence[int],
        at_once: int,
        attempt: Callable[[Sequence[int], OnEnd], Awaitable[tuple[bytes, list[AclgradError | None]]]],
    ) -> tuple[bytes, list[AclgradError | None]]:
        """Does the same for calls of a batch, of which so many run at once; all of them begin again together."""
        try:
            while True:
                reply, errors = await attempt(workspaces, self._begin())
                sizes = [each.size_bytes if isinstance(each, WorkspaceShortageError) else 0 for each in errors]
                if not any(sizes):
                    return reply, errors
                larger = list(map(max, workspaces, sizes))
                more_bytes = bytes_at_once(larger, at_once) - bytes_at_once(workspaces, at_once)
                try:
                    if not self._widen(more_bytes, max(sizes)):
                        return reply, errors
                except LimitExceededError as error:
                    refusal = error.with_traceback(None)
                    return reply, [refusal if size else each for size, each in zip(sizes, errors, strict=True)]
                workspaces = larger
                del reply, errors
        finally:
            self._end()

    def _begin(self) -> OnEnd:
        self._open += 1
        return self._end

    def _end(self) -> None:
        self._open -= 1
        if self._open:
            return
        for claim in self._more:
            claim.give_back()
        self._on_end()

    def _widen(self, more_bytes: int, workspace_bytes: int) -> bool:
        """Says whether there is so much more memory now, for a workspace of this size."""
        if more_bytes == 0:
            return True
        sizes = self._size_bytes, more_bytes, workspace_bytes
        claim = self._admission.workspace(self._caller, *sizes, self._is_small)
        if claim is None:
            return False
        self._more.append(claim)
        self._size_bytes += more_bytes
        return True


def bytes_at_once(workspaces: Sequence[int], count: int) -> int:
    """Returns what the workspaces of so many calls take at most."""
    return sum(sorted(workspaces)[-count:])


def _too_much_to_check(size_bytes: int, limit: int) -> LimitExceededError:
    problem = f"has inputs of {size_bytes} bytes to check and the process may keep {limit} at most"
    metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
    remedy = "send smaller tensors, or raise --memory-limit-bytes (ACLGRAD_MEMORY_LIMIT_BYTES) of the server"
    return LimitExceededError.at("call", problem, remedy, metadata)


def _too_large(size_bytes: int, limit: int) -> LimitExceededError:
    problem = f"takes {size_bytes} bytes and this identity may have {limit} at most"
    metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
    remedy = "send smaller tensors or fewer calls, or ask for a larger max_bytes in the server's identities"
    return LimitExceededError.at("call", problem, remedy, metadata)
