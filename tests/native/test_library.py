"""Opening libraries: a file that is not an ACL library is refused, with all missing functions."""

from collections.abc import Callable
from pathlib import Path

import pytest

import aclgrad_native
from aclgrad_native import AclError, LibraryError
from tools.strict import strict_backend

from . import shims
from .blocking import BlockingDevice

CONFIGURED = """
try:
    print(aclgrad_native.open("host", arguments[0]).device_count())
except AclError as error:
    print(error.call, error.code, error.detail)
"""


def test_a_library_may_be_opened_again_and_closed_by_name_or_path(library: aclgrad_native.AclLibrary) -> None:
    path = shims.host_library()
    for name in ("host", path):
        again = aclgrad_native.open(name)
        assert again.version() == library.version()
        del again
    assert library.device_count() == 1
    assert [part.isdigit() for part in library.version().split(".")] == [True] * 3
    ((opened, _),) = aclgrad_native.library_files(strict_backend(None))
    assert [Path(file).resolve() for file in library.files] == [Path(opened).resolve()]


OTHER_CALL = """
inputs = [((1, 1, 6), 0, False, None), ((1, 1, 4), 0, False, None)]
other = plan((1, 1, 6), (1, 1, 4), symbol="aclnnReflectionPad1dBackward", inputs=inputs, attributes=[[1, 1]])
print(len(open_device(steered=True).execute(other, [bytes(24), None])))
"""


def test_both_phases_of_an_operator_are_of_one_library(run_program: Callable[..., list[str]]) -> None:
    """The steered library has one of the two."""
    assert run_program(OTHER_CALL) == ["16"]


CALL = """
device = BlockingDevice(aclgrad_native.open(arguments[0]))
try:
    device.execute(call, contents)
except aclgrad_native.LibraryError as error:
    print(error)
"""


@pytest.mark.parametrize("phase", ["GetWorkspaceSize", ""], ids=["phase_1", "phase_2"])
def test_only_calls_of_an_operator_that_is_missing_fail(
    run_program: Callable[..., list[str]], tmp_path: Path, phase: str
) -> None:
    (told,) = run_program(CALL, str(shims.without(tmp_path, f"aclnnAdaptiveAvgPool2dBackward{phase}")))
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
    files = [("libm.so.6", True), ("/nowhere/libopapi.so", False), (shims.host_library(), True)]
    assert aclgrad_native.AclLibrary(files).device_count() >= 1


def test_optional_library_that_was_not_opened_is_told_with_the_missing_symbols() -> None:
    with pytest.raises(LibraryError, match=r"could not open: .*/nowhere/libopapi\.so"):
        aclgrad_native.AclLibrary([("libm.so.6", True), ("/nowhere/libopapi.so", False)])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('{"host": {"devices": 2}}', "2"),
        ('{"other": 1}', "1"),
        ('{"host": {"devices": 0}}', "aclInit 100000 "),
        ('{"host": {"speed": 1}}', "host.speed"),
        ("not json", "is not JSON"),
    ],
    ids=["two_devices", "nothing_for_the_host", "no_device", "unknown_key", "no_json"],
)
def test_configuration_of_aclinit(
    tmp_path: Path, run_program: Callable[..., list[str]], text: str, printed: str
) -> None:
    file = tmp_path / "acl.json"
    file.write_text(text)
    (line,) = run_program(CONFIGURED, str(file))
    assert printed in line


def test_configuration_that_is_not_there_is_an_acl_error(run_program: Callable[..., list[str]]) -> None:
    (line,) = run_program(CONFIGURED, "/nowhere/acl.json")
    assert "cannot read the configuration file /nowhere/acl.json" in line


def test_acl_error_carries_its_fields(library: aclgrad_native.AclLibrary) -> None:
    with pytest.raises(AclError) as caught:
        BlockingDevice(library, 7)
    error = caught.value
    assert (error.code, error.call) == (107001, "aclrtSetDevice")
    assert "7" in error.detail
    assert str(error) == f"aclrtSetDevice returned 107001: {error.detail}"


CLOSED_BESIDE_OTHERS = """
FINALIZE = b"aclFinalizeReference"
library = open_library(steered=True)
if arguments[0] == "device":
    device = BlockingDevice(library)
else:
    print(outcome(BlockingDevice, library, 1000))
steer.Hang(FINALIZE, 1, False)
def end():
    wait_until(lambda: steer.Hanging(FINALIZE))
    time.sleep(0.05)
    steer.Release()
thread = threading.Thread(target=end)
thread.start()
if arguments[0] == "device":
    del library, device.native
else:
    del library
thread.join()
print(steer.Calls(FINALIZE))
"""


@pytest.mark.parametrize(("last", "lines"), [("library", ["internal aclrtSetDevice"]), ("device", [])])
def test_the_runtime_ends_without_the_interpreters_lock(
    run_program: Callable[..., list[str]], last: str, lines: list[str]
) -> None:
    """Also if its device could not be opened: the driver takes its time until another thread of Python ends it."""
    assert run_program(CLOSED_BESIDE_OTHERS, last) == [*lines, "1"]
