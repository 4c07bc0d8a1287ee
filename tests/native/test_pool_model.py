"""The memory pool against a simple model: no two blocks overlap, nothing is lost, every statistic is exact."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import aclgrad_native

MEBIBYTE = 2**20
LIMIT = 96 * MEBIBYTE
STREAMS = (1, 2, 3)
SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MEBIBYTE),
    st.integers(1, 24 * MEBIBYTE),
    st.sampled_from([480, 481, MEBIBYTE - 32, MEBIBYTE - 31, 10 * MEBIBYTE - 32, 10 * MEBIBYTE - 31, LIMIT, LIMIT + 1]),
)


class PoolModel(RuleBasedStateMachine):
    """Keeps the intervals that are in use, and those that a stream may still work on."""

    library: aclgrad_native.AclLibrary
    pass_through = False

    @initialize(high_water=st.sampled_from([None, 0, 32 * MEBIBYTE]))
    def make(self, high_water: int | None) -> None:
        self.pool = aclgrad_native.MemoryPool(
            self.library, limit_bytes=LIMIT, high_water_bytes=high_water, pass_through=self.pass_through
        )
        self.held: list[aclgrad_native.PoolBlock] = []
        self.pending: dict[tuple[int, int], int] = {}
        self.count = self.failures = 0

    @rule(size=SIZES, stream=st.sampled_from((0, *STREAMS)))
    def allocate(self, size: int, stream: int) -> None:
        self.count += 1
        try:
            block = self.pool.allocate(size, stream)
        except aclgrad_native.OutOfMemoryError as error:
            failure = error
        else:
            failure = None
        if failure is not None:
            self.failures += 1
            assert (failure.size_bytes, failure.limit_bytes) == (size, LIMIT)
            return
        assert block.capacity >= size
        mine = (block.address, block.address + block.capacity)
        for other in self.held:
            assert mine[1] <= other.address or other.address + other.capacity <= mine[0]
        for (low, high), owner in list(self.pending.items()):
            if mine[1] <= low or high <= mine[0]:
                continue
            # Only the stream that still works on it may have it again.
            assert owner == stream
            del self.pending[low, high]
            for rest in ((low, mine[0]), (mine[1], high)):
                if rest[0] < rest[1]:
                    self.pending[rest] = owner
        self.held.append(block)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), stream=st.sampled_from((0, *STREAMS)))
    def release(self, data: st.DataObject, stream: int) -> None:
        block = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if stream:
            self.pending[block.address, block.address + block.capacity] = stream
        block.release(stream)

    @rule(stream=st.sampled_from(STREAMS))
    def synchronized(self, stream: int) -> None:
        self.pool.synchronized(stream)
        self.pending = {interval: owner for interval, owner in self.pending.items() if owner != stream}

    @rule()
    def trim(self) -> None:
        self.pool.trim()

    @invariant()
    def statistics_are_exact(self) -> None:
        if not hasattr(self, "pool"):
            return
        statistics = self.pool.statistics()
        allocated = sum(block.capacity for block in self.held)
        waiting = sum(high - low for low, high in self.pending)
        assert statistics.allocated_bytes == allocated
        assert statistics.active_bytes == allocated + waiting
        assert statistics.active_bytes <= statistics.reserved_bytes <= LIMIT
        assert statistics.peak_allocated_bytes >= allocated
        assert statistics.peak_reserved_bytes >= statistics.reserved_bytes
        assert statistics.allocation_count == self.count
        assert statistics.out_of_memory_count == self.failures
        assert statistics.largest_free_bytes <= statistics.reserved_bytes - allocated

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for block in self.held:
            block.release()
        for stream in STREAMS:
            self.pool.synchronized(stream)
        self.pool.trim()
        statistics = self.pool.statistics()
        assert (statistics.allocated_bytes, statistics.active_bytes, statistics.reserved_bytes) == (0, 0, 0)


@pytest.fixture
def model(library: aclgrad_native.AclLibrary) -> Iterator[type[PoolModel]]:
    PoolModel.library = library
    yield PoolModel
    del PoolModel.library


@pytest.mark.parametrize("pass_through", [False, True], ids=["pool", "pass_through"])
def test_the_pool_is_what_the_model_says(model: type[PoolModel], pass_through: bool) -> None:
    kind = type("Model", (model,), {"pass_through": pass_through})
    run_state_machine_as_test(kind, settings=settings(max_examples=150, stateful_step_count=60, deadline=None))
