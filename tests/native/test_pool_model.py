"""The memory pool against a simple model: no two blocks overlap, nothing is lost, every statistic is exact."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
STEPS = st.one_of(
    st.tuples(st.just("allocate"), SIZES),
    st.tuples(st.just("allocate"), SIZES),
    st.tuples(st.just("release"), st.integers(0, 100)),
    st.just(("trim", 0)),
)
"""What is released is a block of those that are held, by its number modulo how many there are."""


class Pool:
    """A pool in a process of its own, which takes one step a line: see programs/pool_steps.cpp."""

    def __init__(self, built: sanitizers.Build) -> None:
        ((installed, _),) = aclgrad_native.library_files("host")
        command = [*sanitizers.launcher(), built.programs / "pool_steps", built.library or installed, "1", os.devnull]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, high_water: int, pass_through: bool, steps: list[tuple[str, int]]) -> Iterator[list[str]]:
        """Yields the answer to each step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines = [(LIMIT, high_water, int(pass_through)), *steps]
        print(*(" ".join(map(str, line)) for line in lines), sep="\n", file=self._process.stdin, flush=True)
        for _ in steps:
            yield self._process.stdout.readline().split()

    def close(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def model_pool(built: sanitizers.Build) -> Iterator[Pool]:
    pool = Pool(built)
    yield pool
    pool.close()


def check(pool: Pool, high_water: int, pass_through: bool, steps: list[tuple[str, int]]) -> None:
    held: list[tuple[int, int]] = []
    count = failures = 0
    steps = [*steps, ("end", 0)]
    for (step, number), answer in zip(steps, list(pool.run(high_water, pass_through, steps)), strict=True):
        *answered, allocated, reserved, peak_allocated, peak_reserved, largest_free, counted, failed = answer
        match step:
            case "allocate" if answered[0] == "refused":
                count, failures = count + 1, failures + 1
                assert answered[1:] == [str(number), str(LIMIT)]
            case "allocate":
                count += 1
                address, capacity = map(int, answered)
                assert capacity >= number
                assert address % 64 == 0
                for other, other_capacity in held:
                    assert address + capacity <= other or other + other_capacity <= address
                held.append((address, capacity))
            case "release" if held:
                held.pop(number % len(held))
            case "end":
                held.clear()
                assert int(reserved) == 0
        assert int(allocated) == sum(capacity for _, capacity in held)
        assert int(allocated) <= int(reserved) <= LIMIT
        assert int(peak_allocated) >= int(allocated)
        assert int(peak_reserved) >= int(reserved)
        assert int(largest_free) <= int(reserved) - int(allocated)
        assert (int(counted), int(failed)) == (count, failures)


@pytest.mark.parametrize("pass_through", [False, True], ids=["pool", "pass_through"])
def test_the_pool_is_what_the_model_says(model_pool: Pool, pass_through: bool) -> None:
    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from([UNLIMITED, 0, 32 * MEBIBYTE]), st.lists(STEPS, max_size=60))
    def run(high_water: int, steps: list[tuple[str, int]]) -> None:
        check(model_pool, high_water, pass_through, steps)

    run()
