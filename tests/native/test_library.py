"""Opening libraries: a file that is not an ACL library is refused, with all missing functions."""

from collections.abc import Callable
from pathlib import Path

import pytest

import aclgrad_native
from aclgrad_native import AclError, LibraryError

from . import shims
from .blocking import BlockingDevice

CONFIGURED = """
import sys, aclgrad_native
try:
    library = aclgrad_native.open("host", sys.argv[1])
    print(library.device_count())
except aclgrad_native.AclError as error:
    print(error.call, error.code, error.detail)
"""


def test_host_library_has_a_device_and_a_version(library: aclgrad_native.AclLibrary) -> None:
    assert library.device_count() == 1
    assert [part.isdigit() for part in library.version().split(".")] == [True] * 3


def test_library_may_be_opened_by_its_path(library: aclgrad_native.AclLibrary) -> None:
    ((path, _),) = aclgrad_native.library_files("host")
    assert aclgrad_native.open(path).version() == library.version()


def test_library_may_be_opened_again_and_closed(library: aclgrad_native.AclLibrary) -> None:
    again = aclgrad_native.open("host")
    del again
    assert library.device_count() == 1


def test_library_says_which_files_it_is(library: aclgrad_native.AclLibrary) -> None:
    ((host, _),) = aclgrad_native.library_files("host")
    assert [Path(file).resolve() for file in library.files] == [Path(host).resolve()]


PHASE_2_ALONE = 'extern "C" int aclnnAdaptiveAvgPool2dBackward(void*, uint64_t, void*, void*) { return 561000; }'
CALL = """
import sys
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
from tests.native.shims import open_with
device = BlockingDevice(open_with(sys.argv[1], None))
print(len(device.execute(plan((1, 1, 1), (1, 2, 2)), [b"grad", None])))
"""


def test_both_phases_of_an_operator_are_of_one_library(run_program: Callable[..., str], tmp_path: Path) -> None:
    assert run_program(CALL, str(shims.build(tmp_path, PHASE_2_ALONE))) == "16\n"


CALL_ALL = """
import sys
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
device = BlockingDevice(aclgrad_native.open(sys.argv[1]))
try:
    device.execute(plan((1, 1, 1), (1, 2, 2)), [b"grad", None])
except aclgrad_native.LibraryError as error:
    print(error)
"""


@pytest.mark.parametrize("phase", ["GetWorkspaceSize", ""], ids=["phase_1", "phase_2"])
def test_only_calls_of_an_operator_that_is_missing_fail(
    run_program: Callable[..., str], tmp_path: Path, phase: str
) -> None:
    library = shims.without(tmp_path, f"aclnnAdaptiveAvgPool2dBackward{phase}")
    told = run_program(CALL_ALL, str(library))
    assert told.startswith("no device library has both phases of aclnnAdaptiveAvgPool2dBackward; install ")


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=f"cannot open {tmp_path}/none.so: .*No such file"):
        aclgrad_native.open(f"{tmp_path}/none.so")


def test_file_that_is_no_library_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    with pytest.raises(LibraryError, match=f"cannot open {text}: "):
        aclgrad_native.open(str(text))


def test_library_without_the_symbols_is_told_all_of_them() -> None:
    with pytest.raises(LibraryError, match=r"looked in: libm\.so\.6") as caught:
        aclgrad_native.open("libm.so.6")
    message = str(caught.value)
    expected = ["aclInit", "aclrtMalloc", "aclCreateTensor"]
    assert all(f"{symbol}," in message or f"{symbol};" in message for symbol in expected)


def test_symbols_may_be_spread_over_libraries_and_optional_ones_be_absent() -> None:
    ((host, _),) = aclgrad_native.library_files("host")
    files = [("libm.so.6", True), ("/nowhere/libopapi.so", False), (host, True)]
    assert aclgrad_native.AclLibrary(files).device_count() >= 1


def test_optional_library_that_was_not_opened_is_told_with_the_missing_symbols() -> None:
    with pytest.raises(LibraryError, match=r"could not open: .*/nowhere/libopapi\.so"):
        aclgrad_native.AclLibrary([("libm.so.6", True), ("/nowhere/libopapi.so", False)])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('{"host": {"devices": 2}}', "2\n"),
        ('{"other": 1}', "1\n"),
        ('{"host": {"devices": 0}}', "aclInit 100000 "),
        ('{"host": {"speed": 1}}', "host.speed"),
        ("not json", "is not JSON"),
    ],
    ids=["two_devices", "nothing_for_the_host", "no_device", "unknown_key", "no_json"],
)
def test_configuration_of_aclinit(tmp_path: Path, run_program: Callable[..., str], text: str, printed: str) -> None:
    file = tmp_path / "acl.json"
    file.write_text(text)
    assert printed in run_program(CONFIGURED, str(file))


def test_configuration_that_is_not_there_is_an_acl_error(run_program: Callable[..., str]) -> None:
    assert "cannot read the configuration file /nowhere/acl.json" in run_program(CONFIGURED, "/nowhere/acl.json")


def test_acl_error_carries_its_fields(library: aclgrad_native.AclLibrary) -> None:
    with pytest.raises(AclError) as caught:
        BlockingDevice(library, 7)
    error = caught.value
    assert (error.code, error.call) == (107001, "aclrtSetDevice")
    assert "7" in error.detail
    assert str(error) == f"aclrtSetDevice returned 107001: {error.detail}"


SLOW_END = """
std::atomic<bool> ends{false};

extern "C" int Ends() { return ends; }

extern "C" int aclFinalizeReference(uint64_t* left) {
  ends = true;
  usleep(500'000);
  return Real<int(uint64_t*)>("aclFinalizeReference")(left);
}
"""
CLOSED_BESIDE_OTHERS = """
import ctypes, sys, threading, time
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.shims import open_with
library = open_with(sys.argv[1], None)
if sys.argv[2] == "device":
    device = BlockingDevice(library)
else:
    try:
        BlockingDevice(library, index=1000)
    except aclgrad_native.AclError as error:
        print(error.call)
counted = 0
closed = threading.Event()
def count():
    global counted
    while not closed.wait(0.01):
        counted += 1
thread = threading.Thread(target=count)
thread.start()
if sys.argv[2] == "device":
    del library, device.native
else:
    del library
seen = counted
closed.set()
thread.join()
print(ctypes.CDLL(sys.argv[1]).Ends(), seen > 10)
"""


@pytest.mark.parametrize(("last", "lines"), [("library", ["aclrtSetDevice"]), ("device", [])])
def test_the_runtime_ends_without_the_interpreters_lock(
    run_program: Callable[..., str], tmp_path: Path, last: str, lines: list[str]
) -> None:
    """Also if its device could not be opened: others go on while the driver takes its time."""
    shim = shims.build(tmp_path, SLOW_END)
    assert run_program(CLOSED_BESIDE_OTHERS, str(shim), last).splitlines() == [*lines, "1 True"]
