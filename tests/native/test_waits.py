"""How often a device is asked to wait: a wait that times out writes to a card's log, so there is one for each call."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from . import shims

pytestmark = pytest.mark.once

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
print("abandoned", device.state().abandoned_count)
while device.state().leased_stream_count:
    device.release_finished()
    time.sleep(0.01)
print("released", counts.LateWaits(), device.state().abandoned_count)
"""


def test_each_kernel_is_waited_for_once(run_program: Callable[..., str], tmp_path: Path) -> None:
    """Both kernels take a second. The call that is abandoned is polled afterwards, which is no wait."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "count": 2, "duration_ms": 1000}
    config.write_text(json.dumps({"host": {"faults": [hang]}}))
    lines = run_program(PROGRAM, str(shims.build(tmp_path, COUNTING)), str(config)).splitlines()
    assert lines == ["slow 1 0", "timeout 2 1", "abandoned 1", "released 1 0"]


LATE_BATCH = """
import ctypes, sys
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
counts = ctypes.CDLL(sys.argv[1])
device = BlockingDevice(open_with(*sys.argv[1:]), stream_limit=4)
_, errors = device.execute_all([(plan((1, 1, 1), (1, 2, 2)), [b"grad", None], b"")] * 4, 0.2)
print(*[error.fault for error in errors], counts.LateWaits())
"""


def test_a_late_batch_waits_no_longer_for_what_is_not_done(run_program: Callable[..., str], tmp_path: Path) -> None:
    """The first wait takes all the time there is; the other kernels are only asked whether they are done."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "count": 4, "duration_ms": 2000}
    config.write_text(json.dumps({"host": {"faults": [hang]}}))
    lines = run_program(LATE_BATCH, str(shims.build(tmp_path, COUNTING)), str(config)).splitlines()
    assert lines == ["timeout timeout timeout timeout 1"]


HANGING_QUERY = """
std::atomic<void*> hanging{nullptr};
std::atomic<bool> hangs{false};
std::atomic<bool> is_hanging{false};

extern "C" void Hang() { hangs = true; }
extern "C" int IsHanging() { return is_hanging; }

extern "C" int aclrtStreamQuery(void* stream, int* status) {
  static const auto real = Real<int(void*, int*)>("aclrtStreamQuery");
  void* none = nullptr;
  hanging.compare_exchange_strong(none, stream);
  while (hangs && stream == hanging) {
    is_hanging = true;
    pause();
  }
  return real(stream, status);
}
"""
BESIDE_A_LOOK = """
import ctypes, os, sys, time
import aclgrad_native
from tests.native.blocking import BlockingDevice, deadline
from tests.native.pooling import plan
from tests.native.shims import open_with
device = BlockingDevice(open_with(*sys.argv[1:]))
call = plan((1, 1, 1), (1, 2, 2)), [b"grad", None]
def late():
    ticket = device.waiting.new_ticket()
    device.native.submit(ticket, *call, deadline(0.1))
    print(device.waiting.end(ticket, 20).fault, flush=True)
late()
shim = ctypes.CDLL(sys.argv[1])
shim.Hang()
device.native.release_finished(None)
while not shim.IsHanging():
    time.sleep(0.001)
late()
os._exit(0)
"""


def test_a_look_at_abandoned_work_that_hangs_keeps_nobody(run_program: Callable[..., str], tmp_path: Path) -> None:
    """The second call is also abandoned while the driver does not report the end of the first."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "count": 2, "duration_ms": 60_000}
    config.write_text(json.dumps({"host": {"faults": [hang]}}))
    lines = run_program(BESIDE_A_LOOK, str(shims.build(tmp_path, HANGING_QUERY)), str(config)).splitlines()
    assert lines == ["timeout", "timeout"]


FAILING = """
std::atomic<void*> busy{nullptr};

bool IsBusy(void* stream) {
  static const auto real = Real<int(void*, int*)>("aclrtStreamQuery");
  int status = 0;
  return real(stream, &status) != 0 || status == 1;
}

extern "C" int IsDone() { return busy != nullptr && !IsBusy(busy); }

extern "C" int aclrtStreamQuery(void* stream, int* status) {
  static const auto real = Real<int(void*, int*)>("aclrtStreamQuery");
  return stream == busy && IsBusy(stream) ? 507998 : real(stream, status);
}

extern "C" int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t timeout) {
  static const auto real = Real<int(void*, int32_t)>("aclrtSynchronizeStreamWithTimeout");
  // The first is that of the kernel.
  void* none = nullptr;
  busy.compare_exchange_strong(none, stream);
  return stream == busy && IsBusy(stream) ? 507998 : real(stream, timeout);
}
"""
UNKNOWN = """
import ctypes, sys, time
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
device = BlockingDevice(open_with(*sys.argv[1:]))
shim = ctypes.CDLL(sys.argv[1])
try:
    device.execute(plan((1, 1, 1), (1, 2, 2)), [b"grad", None])
except aclgrad_native.AclError as error:
    print(error.fault, error.code)
print("abandoned", device.state().abandoned_count)
tensors = [device.stage(16)[0] for _ in range(4)]
for tensor in tensors:
    tensor.write(0, b"another call's..")
while not shim.IsDone():
    time.sleep(0.01)
print(*[tensor.read(0, 16).decode() for tensor in tensors], sep="|")
device.release_finished()
print("abandoned", device.state().abandoned_count)
"""


def test_a_code_that_nobody_knows_ends_no_work(run_program: Callable[..., str], tmp_path: Path) -> None:
    """The driver answers so while a kernel runs: the kernel's memory goes to no other call before it has ended."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "duration_ms": 1000}
    config.write_text(json.dumps({"host": {"host_pointers": False, "faults": [hang]}}))
    lines = run_program(UNKNOWN, str(shims.build(tmp_path, FAILING)), str(config)).splitlines()
    assert lines == ["internal 507998", "abandoned 1", "|".join(["another call's.."] * 4), "abandoned 0"]


FAILING_QUERY = """
extern "C" int aclrtStreamQuery(void*, int*) { return 507051; }
"""
ABANDONED = """
import sys
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
    """Only a wait that ends well shows then that it is done."""
    config = tmp_path / "acl.json"
    hang = {"kind": "hang", "at": 1, "duration_ms": 1000}
    config.write_text(json.dumps({"host": {"faults": [hang]}}))
    lines = run_program(ABANDONED, str(shims.build(tmp_path, FAILING_QUERY)), str(config)).splitlines()
    assert lines == ["timeout", "16"]


NEITHER = (
    FAILING_QUERY
    + """
extern "C" int aclrtSynchronizeStreamWithTimeout(void*, int32_t) { return 107003; }
"""
)
LOST = """
import os, sys, time
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
device = BlockingDevice(open_with(sys.argv[1], None), hang_timeout_ms=500)
try:
    device.execute(plan((1, 1, 1), (1, 2, 2)), [b"grad", None])
except aclgrad_native.AclError as error:
    print(error.fault)
try:
    while device.state().abandoned_count:
        device.release_finished()
        time.sleep(0.01)
except aclgrad_native.AclError as error:
    print(error.fault)
"""


def test_a_stream_of_which_nothing_is_known_loses_the_device(run_program: Callable[..., str], tmp_path: Path) -> None:
    """Its memory cannot be used again; a new process finds out what the card can still do."""
    assert run_program(LOST, str(shims.build(tmp_path, NEITHER))).splitlines() == ["internal", "device_lost"]
