"""A device is set and reset in pairs, also if it cannot be opened, and it closes even if a kernel hangs."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.once

OPENING = """
steer.Fail(b"aclrtCtxSetSysParamOpt", 107000, 1)
print(outcome(lambda: open_device(steered=True)))
print(steer.Calls(b"aclrtSetDevice") - steer.Calls(b"aclrtResetDevice"))
"""


def test_a_device_that_cannot_be_opened_is_reset(run_program: Callable[..., list[str]]) -> None:
    assert run_program(OPENING) == ["internal aclrtCtxSetSysParamOpt", "0"]


CLOSING = """
device = open_device(steered=True, stream_limit=4)
steer.Hang(b"aclrtResetDevice", 1, False)
for _ in range(4):
    print(outcome(device.execute, call, contents, 0.1))
del device
gc.collect()
"""


def test_closing_beside_a_kernel_that_hangs_ends(run_program: Callable[..., list[str]]) -> None:
    """A card's reset waits for all kernels."""
    lines = run_program(CLOSING, faults=[{"kind": "hang", "at": 1, "count": 4}])
    assert lines == ["timeout aclrtSynchronizeStream"] * 4
