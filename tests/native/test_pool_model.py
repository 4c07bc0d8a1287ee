"""The memory pool against a simple model: no two blocks overlap, nothing is lost, every statistic is exact."""

import os
import subprocess
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
from tests import sanitizers

pytestmark = pytest.mark.once

MEBIBYTE = 2**20
LIMIT = 96 * MEBIBYTE
UNLIMITED = 2**64 - 1
SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MEBIBYTE),
    st.integers(1, 24 * MEBIBYTE),
    st.sampled_from([480, 481, MEBIBYTE - 32, MEBIBYTE - 31, 10 * MEBIBYTE - 32, 10 * MEBIBYTE - 31, LIMIT, LIMIT + 1]),
)


class Pool:
    """A pool in a process of its own, which takes one command a line: see programs/pool_steps.cpp."""

    def __init__(self, built: sanitizers.Build) -> None:
        ((installed, _),) = aclgrad_native.library_files("host")
        command = [*sanitizers.launcher(), built.programs / "pool_steps", built.library or installed, "1", os.devnull]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)

    def ask(self, *words: object) -> list[str]:
        self.tell(*words)
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def close(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


class PoolModel(RuleBasedStateMachine):
    """Keeps the intervals that are in use."""

    pool: Pool
    pass_through = False

    @initialize(high_water=st.sampled_from([UNLIMITED, 0, 32 * MEBIBYTE]))
    def make(self, high_water: int) -> None:
        self.pool.tell(LIMIT, high_water, int(self.pass_through))
        self.held: list[tuple[int, int]] = []
        self.count = self.failures = 0

    @rule(size=SIZES)
    def allocate(self, size: int) -> None:
        self.count += 1
        answer = self.pool.ask("allocate", size)
        if answer[0] == "refused":
            self.failures += 1
            assert answer[1:] == [str(size), str(LIMIT)]
            return
        address, capacity = map(int, answer)
        assert capacity >= size
        assert address % 64 == 0
        for other, other_capacity in self.held:
            assert address + capacity <= other or other + other_capacity <= address
        self.held.append((address, capacity))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        address, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.tell("release", address)

    @rule()
    def trim(self) -> None:
        self.pool.tell("trim")

    @invariant()
    def statistics_are_exact(self) -> None:
        if not hasattr(self, "held"):
            return
        allocated, reserved, peak_allocated, peak_reserved, largest_free, count, failures = self.statistics()
        assert allocated == sum(capacity for _, capacity in self.held)
        assert allocated <= reserved <= LIMIT
        assert peak_allocated >= allocated
        assert peak_reserved >= reserved
        assert (count, failures) == (self.count, self.failures)
        assert largest_free <= reserved - allocated

    def statistics(self) -> list[int]:
        return [int(each) for each in self.pool.ask("statistics")]

    def teardown(self) -> None:
        if not hasattr(self, "held"):
            return
        for address, _ in self.held:
            self.pool.tell("release", address)
        self.pool.tell("trim")
        assert self.statistics()[:2] == [0, 0]
        self.pool.tell("end")


@pytest.fixture
def model(built: sanitizers.Build) -> Iterator[type[PoolModel]]:
    PoolModel.pool = Pool(built)
    yield PoolModel
    PoolModel.pool.close()
    del PoolModel.pool


@pytest.mark.parametrize("examples", [20, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("pass_through", [False, True], ids=["pool", "pass_through"])
def test_the_pool_is_what_the_model_says(model: type[PoolModel], pass_through: bool, examples: int) -> None:
    kind = type("Model", (model,), {"pass_through": pass_through})
    run_state_machine_as_test(kind, settings=settings(max_examples=examples, stateful_step_count=60, deadline=None))
