"""A device is set and reset in pairs, also if it cannot be opened, and it closes even if a kernel hangs."""

import json
from collections.abc import Callable
from pathlib import Path

from . import shims

COUNTING = """
std::atomic<int> count{0};

extern "C" int InUse() { return count; }

extern "C" int aclrtSetDevice(int device) {
  ++count;
  return Real<int(int)>("aclrtSetDevice")(device);
}

extern "C" int aclrtResetDevice(int device) {
  --count;
  return Real<int(int)>("aclrtResetDevice")(device);
}

extern "C" int aclrtCtxSetSysParamOpt(int, int64_t) { return 107000; }
"""
OPENING = """
import ctypes, sys
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.shims import open_with
library = open_with(sys.argv[1], None)
try:
    BlockingDevice(library)
except aclgrad_native.AclError as error:
    print(error.call, ctypes.CDLL(sys.argv[1]).InUse())
"""


def test_a_device_that_cannot_be_opened_is_reset(run_program: Callable[..., str], tmp_path: Path) -> None:
    assert run_program(OPENING, str(shims.build(tmp_path, COUNTING))).split() == ["aclrtCtxSetSysParamOpt", "0"]


# As a card, whose reset waits for all kernels.
HANGING = """
extern "C" int aclrtResetDevice(int) {
  for (;;) pause();
}
"""
CLOSING = """
import gc, sys
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
library = open_with(*sys.argv[1:])
device = BlockingDevice(library, stream_limit=4)
for _ in range(4):
    try:
        device.execute(plan((1, 1, 1), (1, 2, 2)), [b"grad", None], 0.1)
    except aclgrad_native.AclError as error:
        print(error.fault)
del device, library
gc.collect()
"""


def test_closing_beside_a_kernel_that_hangs_ends(run_program: Callable[..., str], tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"faults": [{"kind": "hang", "at": 1, "count": 4}]}}))
    assert run_program(CLOSING, str(shims.build(tmp_path, HANGING)), str(config)).split() == ["timeout"] * 4
