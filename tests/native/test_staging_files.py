"""Staged tensors and files, with and without a device that takes host memory; what is refused, and what fails late."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aclgrad_native import Device

from .pooling import FLOAT32, SYMBOL
from .staging_checks import CHECKS, WAIT_MS

ON_COPIES = """
import json, pathlib, sys
import aclgrad_native
from tests.native import staging_checks
folder = pathlib.Path(sys.argv[1])
report = folder / "strict.txt"
host = {"host_pointers": False, "strict": True, "strict_report": str(report), "faults": json.loads(sys.argv[3])}
(folder / "acl.json").write_text(json.dumps({"host": host}))
library = aclgrad_native.open("host", str(folder / "acl.json"))
device = aclgrad_native.Device(library, 0, pool_limit_bytes=64 << 20, stream_limit=2)
"""
CHECK = """
getattr(staging_checks, sys.argv[2])(device)
assert device.pool_statistics().allocated_bytes == 0
print((report.exists() and report.read_text()) or "clean")
"""
LATE = """
staging = device.stage(1000)
tensor = staging.reserve(9 << 20)
tensor.write(0, b"a" * (9 << 20), 10_000)
staging.finish(10_000)
part = lambda: aclgrad_native.ReplyBuffer([(b"", 100)]).parts()[0]
for timeout_ms in (20, 20):
    try:
        tensor.read(0, part(), timeout_ms)
    except aclgrad_native.AclError as error:
        print(error.fault)
print(staging_checks.read(tensor, 0, 9 << 20) == b"a" * (9 << 20))
"""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_host_memory(device: Device, check: Callable[[Device], None]) -> None:
    check(device)
    assert device.pool_statistics().allocated_bytes == 0


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_by_copies(check: Callable[[Device], None], run_program: Callable[..., str], tmp_path: Path) -> None:
    assert run_program(ON_COPIES + CHECK, str(tmp_path), check.__name__, "[]") == "clean\n"


def test_bytes_that_came_too_late_are_not_taken_for_the_tensor(run_program: Callable[..., str], tmp_path: Path) -> None:
    """The fourth copy, the first back, takes long; whoever asks again waits again."""
    slow = '[{"kind": "slow_copy", "at": 4, "count": 1, "duration_ms": 1000}]'
    assert run_program(ON_COPIES + LATE, str(tmp_path), "", slow).split() == ["timeout", "timeout", "True"]


@pytest.mark.parametrize("size", [4, 15, 17, 2**20])
def test_staged_input_of_another_size_than_its_shape_takes(device: Device, size: int) -> None:
    staging = device.stage(WAIT_MS)
    source, target = staging.reserve(size), staging.reserve(64)
    call = (SYMBOL, [((1, 2, 2), FLOAT32, source), ((1, 4, 4), FLOAT32, None)], [], (1, 4, 4), FLOAT32, target, [])
    with pytest.raises(ValueError, match=f"the input has {size} bytes; its shape takes 16"):
        device.execute(call, WAIT_MS)
    # A prefix of what is on the device is no more than that either.
    with pytest.raises(ValueError, match="the input has"):
        device.execute((*call[:-1], [0]), WAIT_MS)
    assert device.leased_stream_count == 0
