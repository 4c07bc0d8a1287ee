"""Bounds the calls that run, the memory that they hold, and the calls that wait; fair between callers."""

import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar

from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Bounds, Callers, Claim, Gate, Pace, Room
from aclgrad_server.devices.device import OnEnd
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.planning import check_size
from aclgrad_server.limits import LONGEST_PAUSE_S, MAX_WAITING_SMALL_CALLS, RECEIVE_BYTES_PER_S, SMALL_BYTES
from aclgrad_server.statistics import WAIT

_NO_BOUNDS: Final = Bounds()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes that calls hold."""

    running: int
    waiting: int
    running_bytes: int = 0


@dataclass(slots=True)
class Claims:
    """Memory that a call has claimed: of the device, and of the process for inputs that are checked or encoded."""

    call: Call
    memory: Claim
    of_process: Claim
    """The same as `memory` if these inputs count as tensors."""

    def give_back(self, size_bytes: int, process_bytes: int = 0, reply_bytes: int = 0) -> None:
        """Gives back what work that has ended held; that of its reply, a part of the device's, when the call ends."""
        self.memory.give_back(size_bytes - reply_bytes)
        self.of_process.give_back(process_bytes)
        if reply_bytes:
            self.call.at_end(partial(self.memory.give_back, reply_bytes))


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
        self._checked = None if checked_limit is None else Gate(checked_limit, checked_limit // 2, large)
        gates = large.slots, large.memory, small.slots, small.memory, self.replies, self._checked
        self._gates = [each for each in gates if each is not None]
        self._receiving = Pace(RECEIVE_BYTES_PER_S, LONGEST_PAUSE_S, clock)

    def check(self, caller: str, size_bytes: int, workspace_bytes: int = 0, is_small: bool = False) -> None:
        """Raises LimitExceededError for more of the device's memory than the caller or any call may have."""
        check_size(size_bytes, self._room(is_small).memory.limit, workspace_bytes)
        self._check_bounds(caller, size_bytes)

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
        self.check(caller, size_bytes, workspace_bytes, is_small)
        # The reply of a small call has no claim of its own, and its client decides when it is fetched.
        return self._room(is_small).memory.take(caller, size_bytes, waits_for_client or is_small)

    def device_bytes(self, tensor_bytes: int, checked_bytes: int) -> int:
        """Returns what tensors and checked inputs take of the device's memory."""
        return tensor_bytes + (checked_bytes if self._checked is None else 0)

    async def claim(
        self,
        call: Call,
        tensor_bytes: int,
        checked_bytes: int,
        workspace_bytes: int = 0,
        is_small: bool = False,
        waits_for_client: bool = False,
    ) -> Claims:
        """Claims the device's memory, this part of it as workspace, and the process's for checked or encoded inputs.

        Raises as `memory` does. Whoever waits for the process's memory keeps none of the device's from others. Those of
        small calls count as tensors, so that these never wait for large ones.
        """
        call.enter(WAIT)
        caller = call.caller
        if is_small or self._checked is None or checked_bytes == 0:
            size_bytes = tensor_bytes + checked_bytes
            memory = await self.memory(caller, size_bytes, waits_for_client, is_small, workspace_bytes)
            return Claims(call, memory, memory)
        if checked_bytes > (limit := self._checked.limit):
            problem = f"has inputs of {checked_bytes} bytes to check and the process may keep {limit} at most"
            remedy = "send smaller tensors, or raise --memory-limit-bytes (ACLGRAD_MEMORY_LIMIT_BYTES) of the server"
            raise _beyond(checked_bytes, limit, problem, remedy)
        self._check_bounds(caller, checked_bytes)
        checked = await self._checked.take(caller, checked_bytes, waits_for_client)
        try:
            memory = await self.memory(caller, tensor_bytes, waits_for_client, is_small, workspace_bytes)
        except BaseException:
            checked.give_back()
            raise
        return Claims(call, memory, checked)

    async def claim_reply(self, call: Call, size_bytes: int) -> None:
        """Claims memory of the process for a reply until the call ends."""
        call.at_end((await self.reply(call.caller, size_bytes)).give_back)

    def workspace(
        self, caller: str, size_bytes: int, more_bytes: int, workspace_bytes: int, is_small: bool
    ) -> Claim | None:
        """Returns a claim on more of the device's memory for a call that has so much; None if others have it or wait.

        Raises LimitExceededError for what no call may have.
        """
        size_bytes += more_bytes
        self.check(caller, size_bytes, workspace_bytes)
        room = self.small if is_small and size_bytes <= SMALL_BYTES else self.large
        claim = room.memory.take_at_once(caller, more_bytes)
        room.refusals["workspace"] += claim is None
        return claim

    def reply(self, caller: str, size_bytes: int) -> Awaitable[Claim]:
        """Returns a claim on memory of the process; raises ServerBusyError if too many calls wait."""
        return self.replies.take(caller, size_bytes, waits_for_client=True)

    async def slot(self, caller: str, most: int = 1, is_small: bool = False) -> Claim:
        """Returns a claim on a slot to run, and on up to `most` that nobody waits for.

        Raises ServerBusyError if too many calls wait already.
        """
        self.callers.ask(caller)
        slots = self._room(is_small).slots
        claim = await slots.take(caller, 1)
        slots.widen(claim, most)
        claim.since = self._clock()
        return claim

    def ran(self, slot: Claim, is_small: bool) -> None:
        self._room(is_small).ran(slot)

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

    def _room(self, is_small: bool) -> Room:
        return self.small if is_small else self.large

    def _check_bounds(self, caller: str, size_bytes: int) -> None:
        if size_bytes > (limit := self.callers.bounds(caller).size_bytes):
            problem = f"takes {size_bytes} bytes and this identity may have {limit} at most"
            remedy = "send smaller tensors or fewer calls, or ask for a larger max_bytes in the server's identities"
            raise _beyond(size_bytes, limit, problem, remedy)


class Ends:
    """Calls `on_end` once, when all work that began has ended and its maker has called `end`, too."""

    def __init__(self, on_end: OnEnd) -> None:
        self._on_end = on_end
        self._open = 1

    def begin(self) -> OnEnd:
        self._open += 1
        return self.end

    def end(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._on_end()


@dataclass(eq=False)
class Attempts:
    """Attempts at running what has claimed so much, and this part of it as workspace.

    Only the device library knows how large a workspace is, and only when a call is about to run. A call claims what the
    library asked for calls of its form before. If that is too little, the rest is taken if it is free at once, and the
    call begins again. Otherwise it ends as busy, because nobody waits who holds memory, and the next call of its form
    claims as much from the beginning. `on_end` is called once, when the block has ended and the device is done with
    all attempts.
    """

    admission: Admission
    caller: str
    size_bytes: int
    workspace_bytes: int
    is_small: bool
    on_end: OnEnd

    def __post_init__(self) -> None:
        self._more: list[Claim] = []
        self._ends = Ends(self._give_back)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.end()

    async def run(self, attempt: Callable[[OnEnd, int], Awaitable[Result]]) -> Result:
        """Returns the result of an attempt, which takes the size of its workspace."""
        while True:
            try:
                return await attempt(self._ends.begin(), self.workspace_bytes)
            except WorkspaceShortageError as shortage:
                if not self._widen(shortage.size_bytes, shortage.size_bytes):
                    raise

    async def run_all(
        self,
        tensors: Sequence[int],
        workspaces: Sequence[int],
        at_once: int,
        attempt: Callable[[OnEnd, Sequence[int]], Awaitable[tuple[bytes, list[AclgradError | None]]]],
        on_end: OnEnd,
    ) -> tuple[bytes, list[AclgradError | None]]:
        """Does the same for calls of so many bytes, of which so many run at once; all of them begin again together.

        Groups that run one after the other share the workspaces. Each has its own `on_end`.
        """
        of_all = self._ends.begin()

        def end() -> None:
            on_end()
            of_all()

        ends, refusals = Ends(end), dict[int, AclgradError]()
        try:
            while True:
                reply, errors = await attempt(ends.begin(), workspaces)
                needed: dict[int, int] = {}
                for index, error in enumerate(errors):
                    if not isinstance(error, WorkspaceShortageError) or index in refusals:
                        continue
                    try:
                        self.admission.check(self.caller, tensors[index] + error.size_bytes, error.size_bytes)
                        needed[index] = error.size_bytes
                    except LimitExceededError as refusal:
                        refusals[index] = refusal.with_traceback(None)
                larger = [needed.get(index, each) for index, each in enumerate(workspaces)]
                try:
                    begins_again = needed and self._widen(bytes_at_once(larger, at_once), max(needed.values()))
                except LimitExceededError as refusal:
                    refusals |= dict.fromkeys(needed, refusal.with_traceback(None))
                    begins_again = False
                if not begins_again:
                    return reply, [refusals.get(index, each) for index, each in enumerate(errors)]
                workspaces = larger
                del reply, errors
        finally:
            ends.end()

    def _give_back(self) -> None:
        for claim in self._more:
            claim.give_back()
        self.on_end()

    def _widen(self, workspace_bytes: int, largest_bytes: int) -> bool:
        """Says whether there is so much for workspaces now, the largest of this size."""
        more_bytes = workspace_bytes - self.workspace_bytes
        if more_bytes <= 0:
            return True
        claim = self.admission.workspace(self.caller, self.size_bytes, more_bytes, largest_bytes, self.is_small)
        if claim is None:
            return False
        self._more.append(claim)
        self.size_bytes += more_bytes
        self.workspace_bytes = workspace_bytes
        return True


def bytes_at_once(workspaces: Sequence[int], count: int) -> int:
    """Returns what the workspaces of so many calls take at most."""
    return sum(sorted(workspaces)[-count:])


def _beyond(size_bytes: int, limit: int, problem: str, remedy: str) -> LimitExceededError:
    return LimitExceededError.at("call", problem, remedy, {"size_bytes": str(size_bytes), "limit": str(limit)})
