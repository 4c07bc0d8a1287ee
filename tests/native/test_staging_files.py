"""Staged tensors and files, on devices with and without host memory; refused calls, and late failures."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .blocking import BlockingDevice
from .pooling import plan
from .staging_checks import CHECKS

ON_COPIES = """
import json, pathlib, sys
import aclgrad_native
from tests.native import staging_checks
from tests.native.blocking import BlockingDevice
folder = pathlib.Path(sys.argv[1])
report = folder / "strict.txt"
host = {"host_pointers": False, "strict": True, "strict_report": str(report), "faults": json.loads(sys.argv[3])}
(folder / "acl.json").write_text(json.dumps({"host": host}))
device = BlockingDevice(aclgrad_native.open("host", str(folder / "acl.json")))
"""
CHECK = """
getattr(staging_checks, sys.argv[2])(device)
device.assert_idle()
print((report.exists() and report.read_text()) or "clean")
"""
LATE = """
(tensor,) = device.stage(9 << 20)
tensor.write(0, b"a" * (9 << 20))
for _ in range(2):
    try:
        tensor.read(0, 100, timeout_s=0.02)
    except aclgrad_native.AclError as error:
        print(error.fault)
print(tensor.read(0, 9 << 20) == b"a" * (9 << 20))
"""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_host_memory(device: BlockingDevice, check: Callable[[BlockingDevice], None]) -> None:
    check(device)
    device.assert_idle()


@pytest.mark.once
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_by_copies(check: Callable[[BlockingDevice], None], run_program: Callable[..., str], tmp_path: Path) -> None:
    assert run_program(ON_COPIES + CHECK, str(tmp_path), check.__name__, "[]") == "clean\n"


def test_bytes_that_came_too_late_are_not_taken_for_the_tensor(run_program: Callable[..., str], tmp_path: Path) -> None:
    """The tenth copy, the first one back, is slow; a second request waits again."""
    slow = '[{"kind": "slow_copy", "at": 10, "count": 1, "duration_ms": 1000}]'
    assert run_program(ON_COPIES + LATE, str(tmp_path), "", slow).split() == ["timeout", "timeout", "True"]


@pytest.mark.parametrize("size", [4, 15, 17, 2**20])
@pytest.mark.parametrize("is_prefix", [False, True])
@pytest.mark.parametrize("on_host", [False, True])
def test_staged_input_of_another_size_than_its_shape_takes(
    device: BlockingDevice, size: int, is_prefix: bool, on_host: bool
) -> None:
    """Not even the beginning of an input: a tensor that is on the device must be complete."""
    if on_host and is_prefix and size < 16:
        return  # a prefix in host memory may be short
    (source,), (target,) = device.stage(size, on_host=on_host), device.stage(64)
    inputs = [((1, 2, 2), 0, is_prefix, None), ((1, 4, 4), 0, False, None)]
    with pytest.raises(ValueError, match=f"the input has {size} bytes; its shape takes 16"):
        device.execute_into(plan((1, 2, 2), (1, 4, 4), inputs=inputs), [source, None], target)
    del source, target
    device.assert_idle()
