"""The pool counts the bytes that the device charges, and checks the device's free memory before it grows."""

from collections.abc import Callable
from pathlib import Path

import pytest

import aclgrad_native

from . import shims
from .blocking import BlockingDevice


@pytest.mark.parametrize("pass_through", [True, False])
def test_the_pool_counts_what_the_device_charges(library: aclgrad_native.AclLibrary, pass_through: bool) -> None:
    device = BlockingDevice(library, pool_pass_through=pass_through)
    before = device.state().free_bytes
    tensors = device.stage(1, 1000, 3 << 20)
    state = device.state()
    assert before - state.free_bytes == state.pool.reserved_bytes
    for tensor in tensors:
        tensor.native.close()
    device.assert_idle()


CROWDED = """
std::atomic<size_t> free_bytes{1000 << 20};

extern "C" void SetFree(size_t bytes) { free_bytes = bytes; }

extern "C" int aclrtGetMemInfo(int, size_t* free, size_t* total) {
  *free = free_bytes;
  *total = size_t{1000} << 20;
  return 0;
}
"""
PROGRAM = """
import ctypes, sys
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.shims import open_with
shim = ctypes.CDLL(sys.argv[1])
shim.SetFree.argtypes = [ctypes.c_size_t]
device = BlockingDevice(open_with(sys.argv[1], None), pool_limit_bytes=eval(sys.argv[2]))
print(device.native.pool_limit_bytes >> 20)
shim.SetFree(150 << 20)
for size in (180, 60, 40):
    try:
        device.stage(size << 20)
        print("staged")
    except aclgrad_native.OutOfMemoryError as error:
        print(error.detail.split("; ")[-1])
"""
LEFT = "the device has only 157286400 bytes left"


@pytest.mark.parametrize(
    ("limit", "lines"),
    [("800 << 20", ["800", LEFT, "staged", "staged"]), ("None", ["900", LEFT, LEFT, "staged"])],
    ids=["set", "default"],
)
def test_the_pool_grows_into_what_others_left(
    run_program: Callable[..., str], tmp_path: Path, limit: str, lines: list[str]
) -> None:
    """By default it also leaves the tenth that was not its own when the device was opened."""
    assert run_program(PROGRAM, str(shims.build(tmp_path, CROWDED)), limit).splitlines() == lines
