"""How often a device is asked to wait: a wait that times out writes to a card's log, so there is one for each call."""

import json
from collections.abc import Callable
from pathlib import Path

from . import shims

COUNTING = """
std::atomic<int> waits{0};
std::atomic<int> late_waits{0};

extern "C" int Waits() { return waits; }
extern "C" int LateWaits() { return late_waits; }

extern "C" int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t timeout) {
  static const auto wait = Real<int(void*, int32_t)>("aclrtSynchronizeStreamWithTimeout");
  const int code = wait(stream, timeout);
  ++waits;
  if (code == 507046) ++late_waits;
  return code;
}
"""
PROGRAM = """
import ctypes, sys, time
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
shim, config = sys.argv[1:]
counts = ctypes.CDLL(shim)
device = BlockingDevice(open_with(shim, config))
call = plan((1, 1, 1), (1, 2, 2)), [b"grad", None]
device.execute(*call)
print("slow", counts.Waits(), counts.LateWaits())
try:
    device.execute(*call, 0.1)
except aclgrad_native.AclError as error:
    print(error.fault, counts.Waits(), counts.LateWaits())
while device.state().leased_stream_count:
    device.release_finished()
    time.sleep(0.01)
print("released", counts.LateWaits())
"""


def test_each_kernel_is_waited_for_once(run_program: Callable[..., str], tmp_path: Path) -> None:
    """Both kernels take a second. The call that is abandoned is polled afterwards, which is no wait."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "count": 2, "duration_ms": 1000}
    config.write_text(json.dumps({"host": {"faults": [hang]}}))
    lines = run_program(PROGRAM, str(shims.build(tmp_path, COUNTING)), str(config)).splitlines()
    assert lines == ["slow 1 0", "timeout 2 1", "released 1"]


FAILING_QUERY = """
extern "C" int aclrtStreamQuery(void*, int*) { return 507000; }
"""
ABANDONED = """
import sys, time
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
device = BlockingDevice(open_with(*sys.argv[1:]), stream_limit=1)
call = plan((1, 1, 1), (1, 2, 2)), [b"grad", None]
try:
    device.execute(*call, 0.1)
except aclgrad_native.AclError as error:
    print(error.fault)
print(len(device.execute(*call)))
"""


def test_a_stream_that_answers_no_query_comes_back(run_program: Callable[..., str], tmp_path: Path) -> None:
    """A failed stream may answer with its error; whether it is done shows when it is waited for."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "duration_ms": 1000}
    config.write_text(json.dumps({"host": {"faults": [hang]}}))
    lines = run_program(ABANDONED, str(shims.build(tmp_path, FAILING_QUERY)), str(config)).splitlines()
    assert lines == ["timeout", "16"]
