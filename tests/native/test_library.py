"""Opening libraries: a file that is not an ACL library is refused, with all missing functions."""

from pathlib import Path

import pytest

import aclgrad_native
from aclgrad_native import AclError, LibraryError
from tools.strict import strict_backend

from . import shims
from .blocking import BlockingDevice
from .forked import CALL, CONTENTS, open_device
from .forks import in_fork
from .pooling import FLOAT32, SYMBOL, plan


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


@in_fork()
def test_both_phases_of_an_operator_are_of_one_library() -> None:
    """The steered library has one of the two."""
    inputs = [((1, 1, 6), FLOAT32, False, None), ((1, 1, 4), FLOAT32, False, None)]
    other = plan((1, 1, 6), (1, 1, 4), symbol="aclnnReflectionPad1dBackward", inputs=inputs, attributes=[[1, 1]])
    assert len(open_device(steered=True).execute(other, [bytes(24), None])) == 16


@pytest.mark.parametrize("phase", ["GetWorkspaceSize", ""], ids=["phase_1", "phase_2"])
@in_fork()
def test_only_calls_of_an_operator_that_is_missing_fail(tmp_path: Path, phase: str) -> None:
    library = shims.without(tmp_path, f"{SYMBOL}{phase}")
    with pytest.raises(LibraryError, match=f"^no device library has both phases of {SYMBOL}; install "):
        BlockingDevice(aclgrad_native.open(str(library))).execute(CALL, CONTENTS)


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
    ("text", "answer"),
    [
        ('{"host": {"devices": 2}}', 2),
        ('{"other": 1}', 1),
        ('{"host": {"devices": 0}}', "aclInit returned 100000: "),
        ('{"host": {"speed": 1}}', r"host\.speed"),
        ("not json", "is not JSON"),
    ],
    ids=["two_devices", "nothing_for_the_host", "no_device", "unknown_key", "no_json"],
)
@in_fork()
def test_configuration_of_aclinit(tmp_path: Path, text: str, answer: int | str) -> None:
    file = tmp_path / "acl.json"
    file.write_text(text)
    if isinstance(answer, int):
        assert aclgrad_native.open("host", str(file)).device_count() == answer
        return
    with pytest.raises(AclError, match=answer):
        aclgrad_native.open("host", str(file))


@in_fork()
def test_configuration_that_is_not_there_is_an_acl_error() -> None:
    with pytest.raises(AclError, match=r"cannot read the configuration file /nowhere/acl\.json"):
        aclgrad_native.open("host", "/nowhere/acl.json")
