"""A device whose methods wait for their results: tests have no event loop."""

import itertools
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aclgrad_native import (
    AclLibrary,
    CallTemplate,
    Cancellation,
    Completions,
    Device,
    ExecutorStatistics,
    PoolStatistics,
    StagedTensor,
)

TIMEOUT_S = 60.0
POOL_BYTES = 64 << 20
NO_LIMIT = 2**62
Step = tuple[CallTemplate, Sequence[Any], bytes, Sequence[Any] | None, Sequence[int], Sequence[int]]
Lane = tuple[Sequence[int], int, int]


class Waiting:
    """Completions, and their results so far. For one thread."""

    def __init__(self) -> None:
        self.completions = Completions()
        self._numbers = itertools.count()
        self._ends: dict[int, Any] = {}

    def new_ticket(self) -> int:
        return next(self._numbers)

    def end(self, ticket: int, timeout_s: float = TIMEOUT_S) -> Any:
        """Returns the result or the exception of submitted work; raises TimeoutError if neither comes."""
        limit = time.monotonic() + timeout_s
        while ticket not in self._ends:
            left_s = limit - time.monotonic()
            if left_s <= 0 or not select.select([self.completions.file], [], [], left_s)[0]:
                raise TimeoutError(f"ticket {ticket} did not come back within {timeout_s:g} s")
            self.drain()
        return self._ends.pop(ticket)

    def drain(self) -> None:
        for ticket, end in self.completions.drain():
            assert ticket not in self._ends, f"ticket {ticket} came back twice"
            self._ends[ticket] = end

    def result(self, ticket: int) -> Any:
        """Returns the result of submitted work, or raises its exception."""
        end = self.end(ticket)
        if not isinstance(end, Exception):
            return end
        try:
            raise end
        finally:
            # It would refer to itself through this frame, and keep everything that its callers hold.
            del end

    def call(self, method: Callable[..., object], *arguments: Any) -> Any:
        ticket = self.new_ticket()
        method(ticket, *arguments)
        return self.result(ticket)


class State(NamedTuple):
    free_bytes: int
    total_bytes: int
    pool: PoolStatistics
    stream_count: int
    leased_stream_count: int
    abandoned_count: int
    executors: ExecutorStatistics
    pinned_bytes: int


class BlockingDevice:
    """A device of its own, with its completions. A timeout runs from the moment of submission."""

    def __init__(self, library: AclLibrary, index: int = 0, *, stream_limit: int = 2, **options: Any) -> None:
        self.waiting = Waiting()
        options = {"pool_limit_bytes": POOL_BYTES} | options
        self.native = Device(library, index, self.waiting.completions, stream_limit=stream_limit, **options)
        self.released: list[int] = []
        """The tickets of releases that were not drained yet."""

    def submit(self, plan: CallTemplate, contents: Sequence[Any], timeout_s: float = TIMEOUT_S, **options: Any) -> int:
        """Returns the ticket of a call, for `waiting`."""
        ticket = self.waiting.new_ticket()
        self.native.submit(ticket, plan, contents, deadline(timeout_s), **options)
        return ticket

    def execute(self, plan: CallTemplate, contents: Sequence[Any], timeout_s: float = TIMEOUT_S) -> bytes:
        reply: bytes = self.waiting.result(self.submit(plan, contents, timeout_s))
        return reply

    def execute_into(
        self, plan: CallTemplate, contents: Sequence[Any], target: "BlockingTensor", timeout_s: float = TIMEOUT_S
    ) -> None:
        """Runs one step whose output goes to a tensor alone."""
        step = alone(plan, natives(contents), sinks=[(target.native, False)])
        _, errors, _ = self.run_group([step], timeout_s=timeout_s)
        if errors != [None]:
            # Not from a variable of this frame, as in Waiting.result.
            raise errors.pop()

    def execute_all(
        self, calls: Sequence[tuple[CallTemplate, Sequence[Any], bytes]], timeout_s: float = TIMEOUT_S, **options: Any
    ) -> tuple[bytes, list[Exception | None]]:
        """Runs steps that do not need each other."""
        reply, errors, _ = self.run_group([alone(*each) for each in calls], timeout_s=timeout_s, **options)
        return reply, errors

    def submit_group(
        self, steps: Sequence[Step], lanes: Sequence[Lane] | None = None, timeout_s: float = TIMEOUT_S, **options: Any
    ) -> tuple[int, Cancellation]:
        """Returns the group's ticket; each step has a lane of its own by default."""
        ticket = self.waiting.new_ticket()
        lanes = [lane(position) for position in range(len(steps))] if lanes is None else lanes
        return ticket, self.native.submit_group(ticket, steps, lanes, deadline(timeout_s), **options)

    def run_group(self, *arguments: Any, **options: Any) -> tuple[bytes, list[Exception | None], list[bytes]]:
        reply, errors, messages = self.waiting.result(self.submit_group(*arguments, **options)[0])
        return reply, errors, messages

    def stage(self, *sizes: int, on_host: bool = False, timeout_s: float = TIMEOUT_S) -> "list[BlockingTensor]":
        released = self.waiting.new_ticket()
        self.released.append(released)
        tensors = self.waiting.call(
            self.native.stage, released, [(size, on_host) for size in sizes], deadline(timeout_s)
        )
        return [BlockingTensor(each, self) for each in tensors]

    def wait_until_released(self) -> None:
        """Returns when everything that was staged has been released."""
        limit = deadline(TIMEOUT_S)
        while self.released:
            try:
                assert self.waiting.end(self.released[-1], 0.05) is None
                self.released.pop()
            except TimeoutError:
                if time.monotonic() > limit:
                    raise
                # What was abandoned is released when somebody looks whether it has ended.
                self.release_finished()

    def release_finished(self) -> None:
        self.waiting.call(self.native.release_finished)

    def trim(self) -> None:
        self.waiting.call(self.native.trim)

    def state(self) -> State:
        return State(*self.waiting.call(self.native.state))

    def assert_idle(self) -> None:
        """No call has left anything behind; what was staged has to be gone."""
        self.wait_until_released()
        state = self.state()
        assert (state.pool.allocated_bytes, state.leased_stream_count) == (0, 0)


class BlockingTensor:
    def __init__(self, native: StagedTensor, device: BlockingDevice) -> None:
        self.native = native
        self._device = device
        self._waiting = device.waiting

    def write(self, offset: int, data: bytes | memoryview, timeout_s: float = TIMEOUT_S) -> None:
        self._waiting.call(self._device.native.write, [(self.native, offset, data)], deadline(timeout_s))

    def read(self, offset: int, size: int, prefix: bytes = b"", timeout_s: float = TIMEOUT_S) -> bytes:
        reads = [(self.native, offset, prefix, size)]
        messages: list[bytes] = self._waiting.call(self._device.native.read, reads, deadline(timeout_s))
        return messages[0]

    def read_file(self, file: int, offset: int, timeout_s: float = TIMEOUT_S) -> int:
        count: int = self._waiting.call(self.native.read_file, file, offset, deadline(timeout_s))
        return count

    def write_file(self, file: int, offset: int, timeout_s: float = TIMEOUT_S) -> None:
        self._waiting.call(self.native.write_file, file, offset, deadline(timeout_s))


def natives(contents: Sequence[Any]) -> list[Any]:
    return [each.native if isinstance(each, BlockingTensor) else each for each in contents]


def alone(plan: CallTemplate, contents: Sequence[Any], prefix: bytes = b"", sinks: Sequence[Any] | None = None) -> Step:
    """Returns a step of a group that needs no other."""
    return plan, contents, prefix, sinks, [], []


def lane(*positions: int, arena_bytes: int = 0, workspace_limit: int = NO_LIMIT) -> Lane:
    return positions, arena_bytes, workspace_limit


def deadline(timeout_s: float) -> float:
    return time.monotonic() + timeout_s
