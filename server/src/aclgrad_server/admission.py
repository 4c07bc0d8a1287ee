"""Bounds the calls that run, the memory that they hold together, and the calls that wait; each exactly, in order."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aclgrad.errors import DeadlinePassedError, DeviceMemoryError, ServerBusyError

RETRY_AFTER_S: Final = 0.1

AtEnd = Callable[[Callable[[], None]], bool]
"""Has a function called when the call has ended and its reply has left; False where it has ended already."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many calls run and wait at one moment, and the bytes of those that run."""

    running: int
    waiting: int
    running_bytes: int = 0


class _Gate:
    """Gives out up to `limit` units, in the order of arrival: a large claim is not overtaken for ever by small ones."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.queue: deque[_Claim] = deque()

    def has_room(self, units: int) -> bool:
        return not self.queue and self.used + units <= self.limit

    def claimed(self) -> int:
        return self.used + sum(claim.units for claim in self.queue)

    def try_take(self, units: int) -> bool:
        if not self.has_room(units):
            return False
        self.used += units
        return True

    def give_back(self, units: int) -> None:
        self.used -= units
        self.serve()

    def serve(self) -> None:
        while self.queue and self.used + self.queue[0].units <= self.limit:
            claim = self.queue.popleft()
            self.used += claim.units
            claim.is_served = True
            claim.changed.notify()


class _Claim:
    """What somebody waits for."""

    def __init__(self, lock: threading.Lock, units: int) -> None:
        self.units = units
        self.is_served = False
        self.changed = threading.Condition(lock)


class Admission:
    """Lets `running_limit` calls run on tensors of `bytes_limits` bytes on each device, and `waiting_limit` more wait.

    Memory is claimed before a place to run: who runs has all it needs, so nobody waits for each other.
    """

    def __init__(self, running_limit: int, waiting_limit: int, bytes_limits: Sequence[int] = (sys.maxsize,)) -> None:
        self.waiting_limit = waiting_limit
        self._lock = threading.Lock()
        self._places = (_Gate(running_limit),)
        self._memories = tuple(map(_Gate, bytes_limits))

    @property
    def running_limit(self) -> int:
        return self._places[0].limit

    @property
    def bytes_limit(self) -> int:
        return sum(memory.limit for memory in self._memories)

    def admit(self, deadline: float, size_bytes: int = 0) -> "Turn":
        """Holds so many bytes and a place to run while its block runs; raises as `hold` does."""
        return Turn(self, deadline, (self._memories, size_bytes), (self._places, 1))

    def hold(self, deadline: float, size_bytes: int) -> "Turn":
        """Holds so many bytes of one device while its block runs, which is given the index of the device.

        That is the one with the fewest bytes claimed, of those that have room at once if there are such.

        Raises DeviceMemoryError for more bytes than any device holds, ServerBusyError where too many wait already, and
        DeadlinePassedError where the turn did not come before `deadline`, a time of `time.monotonic`.
        """
        return Turn(self, deadline, (self._memories, size_bytes))

    def run(self, deadline: float) -> "Turn":
        """Holds a place to run while its block runs; raises as `hold` does."""
        return Turn(self, deadline, (self._places, 1))

    def take(self, claims: Sequence[tuple[Sequence[_Gate], int]], deadline: float) -> list[tuple[int, _Gate, int]]:
        """Claims units of one gate of each kind; returns the gates with their indices and units."""
        taken: list[tuple[int, _Gate, int]] = []
        with self._lock:
            try:
                for gates, units in claims:
                    index = _choose(gates, units)
                    self._take(gates[index], units, deadline)
                    taken.append((index, gates[index], units))
            except BaseException:
                _give_back(taken)
                raise
        return taken

    def give_back(self, taken: Sequence[tuple[int, _Gate, int]]) -> None:
        with self._lock:
            _give_back(taken)

    def occupancy(self) -> Occupancy:
        with self._lock:
            return Occupancy(self._places[0].used, self._waiting(), sum(memory.used for memory in self._memories))

    def _take(self, gate: _Gate, units: int, deadline: float) -> None:
        """Takes the units with the lock held, which is let go of while it waits."""
        if gate.try_take(units):
            return
        if units > gate.limit:
            raise _too_large(units, gate.limit)
        if self._waiting() >= self.waiting_limit:
            raise _busy(self._places[0].used + self._waiting())
        claim = _Claim(self._lock, units)
        gate.queue.append(claim)
        try:
            claim.changed.wait_for(lambda: claim.is_served, max(0.0, deadline - time.monotonic()))
        finally:
            if not claim.is_served:
                gate.queue.remove(claim)
                # It may have been what the others waited behind.
                gate.serve()
        if not claim.is_served:
            remedy = "allow more time, or call a server with less to do"
            raise DeadlinePassedError(f"the deadline passed while the call waited; {remedy}", remedy=remedy)

    def _waiting(self) -> int:
        return sum(len(gate.queue) for gate in (*self._places, *self._memories))


class Turn:
    """What one call holds of the gates while its block runs, claimed in the order given."""

    __slots__ = ("_admission", "_claims", "_deadline", "_taken")

    def __init__(self, admission: Admission, deadline: float, *claims: tuple[Sequence[_Gate], int]) -> None:
        self._admission = admission
        self._deadline = deadline
        self._claims = claims

    def __enter__(self) -> int:
        """Returns the index of the first claim's gate: for memory that of the device."""
        self._taken = self._admission.take(self._claims, self._deadline)
        return self._taken[0][0]

    def keep_bytes(self, size_bytes: int, at_end: AtEnd) -> None:
        """Keeps so many of the claimed bytes beyond the block: a reply is in memory until its client has fetched it."""
        index, memory, held = self._taken[0]
        if at_end(partial(self._admission.give_back, ((index, memory, size_bytes),))):
            self._taken[0] = (index, memory, held - size_bytes)

    def __exit__(self, *error: object) -> None:
        self._admission.give_back(self._taken)


def _choose(gates: Sequence[_Gate], units: int) -> int:
    """Returns the index of the gate with the fewest units claimed; one with room comes first, one too small last."""
    if len(gates) == 1:
        return 0

    def order(index: int) -> tuple[bool, bool, int, int]:
        gate = gates[index]
        is_too_small = units > gate.limit
        return is_too_small, not gate.has_room(units), -gate.limit if is_too_small else gate.claimed(), index

    return min(range(len(gates)), key=order)


def _give_back(taken: Sequence[tuple[int, _Gate, int]]) -> None:
    for _, gate, units in taken:
        gate.give_back(units)


def _too_large(size_bytes: int, limit: int) -> DeviceMemoryError:
    remedy = "send a smaller tensor, or raise --pool-bytes (ACLGRAD_POOL_BYTES)"
    return DeviceMemoryError(
        f"the call's tensors take {size_bytes} bytes and the memory pool of a device holds {limit} at most; {remedy}",
        remedy=remedy,
        metadata={"size_bytes": str(size_bytes), "limit": str(limit)},
    )


def _busy(calls: int) -> ServerBusyError:
    remedy = f"try again in {RETRY_AFTER_S} s"
    return ServerBusyError(
        f"the server has {calls} calls in flight and waiting, its limit; {remedy}",
        remedy=remedy,
        retry_after_s=RETRY_AFTER_S,
        metadata={"limit": str(calls)},
    )
