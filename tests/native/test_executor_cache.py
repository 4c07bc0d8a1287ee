"""Calls that are run again by a kept executor, or planned anew where the library keeps none, on a strict device."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .pooling import SYMBOL

pytestmark = pytest.mark.once

PROGRAM = """
device = open_device(stream_limit=1, executor_limit=2, pool_pass_through=True)
# Of three forms one stays and the others take each other's place; each call has values of its own.
for number in range(1, 40):
    side = (2, 3, 2, 4)[number % 4]
    grad_output = np.full((1, 1, 1), number * side * side, np.float32)
    assert (pool(device, grad_output, (1, side, side)) == number).all(), number
state = device.state()
print(state.pool.allocated_bytes)
print(state.executors.entry_count, state.executors.hit_count, state.executors.miss_count)
"""


@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
@pytest.mark.parametrize("not_repeatable", [[], [SYMBOL]], ids=["repeatable", "not_repeatable"])
def test_each_call_has_its_own_values(
    run_program: Callable[..., list[str]], tmp_path: Path, not_repeatable: list[str], host_pointers: bool
) -> None:
    report = tmp_path / "strict.txt"
    # The form that stays has 19 of the 39 calls, and all but the first find it. Each other call takes the place of the
    # one before it.
    counts = "0 0 39" if not_repeatable else "2 18 21"
    settings = {"host_pointers": host_pointers, "not_repeatable": not_repeatable}
    assert run_program(PROGRAM, strict=True, strict_report=str(report), **settings) == ["0", counts]
    # Strict mode reports leaks here, and executors that ran twice without being repeatable.
    assert report.read_text() == ""
