"""Opening libraries: a file that is not an ACL library is refused, with all missing functions."""

from pathlib import Path

import pytest

import aclgrad_native
from aclgrad_native import AclError, Input, LibraryError

from . import shims
from .blocking import BlockingDevice
from .forked import CALL, CONTENTS, open_device
from .forks import in_fork
from .pooling import FLOAT32, SYMBOL, plan


@in_fork()
def test_both_phases_of_an_operator_are_of_one_library() -> None:
    """The steered library has one of the two."""
    inputs = [Input((1, 1, 6), FLOAT32), Input((1, 1, 4), FLOAT32)]
    other = plan((1, 1, 6), (1, 1, 4), symbol="aclnnReflectionPad1dBackward", inputs=inputs, attributes=[[1, 1]])
    assert len(open_device(steered=True).execute(other, [bytes(24), None])) == 16


@pytest.mark.parametrize("phase", ["GetWorkspaceSize", ""], ids=["phase_1", "phase_2"])
@in_fork()
def test_only_calls_of_an_operator_that_is_missing_fail(tmp_path: Path, phase: str) -> None:
    library = shims.without(tmp_path, f"{SYMBOL}{phase}")
    with pytest.raises(LibraryError, match=f"^no device library has both phases of {SYMBOL}; install "):
        BlockingDevice(aclgrad_native.open(str(library))).execute(CALL, CONTENTS)


def test_a_file_that_is_no_acl_library_is_refused_with_all_that_it_lacks(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    for path, problem in ((f"{tmp_path}/none.so", ".*No such file"), (str(text), "")):
        with pytest.raises(LibraryError, match=f"cannot open {path}: {problem}"):
            aclgrad_native.open(path)
    files = [("libm.so.6", True), ("/nowhere/libopapi.so", False)]
    with pytest.raises(
        LibraryError, match=r"looked in: libm\.so\.6.*could not open: .*/nowhere/libopapi\.so"
    ) as caught:
        aclgrad_native.AclLibrary(files)
    message = str(caught.value)
    expected = ["aclInit", "aclrtMalloc", "aclCreateTensor"]
    assert all(f"{symbol}," in message or f"{symbol};" in message for symbol in expected)
    # Symbols may be spread over libraries.
    assert aclgrad_native.AclLibrary([*files, (shims.host_library(), True)]).device_count() >= 1


@pytest.mark.parametrize("path", ["/nowhere/acl.json", b"/nowhere/\xff\xc3.json"])
@in_fork()
def test_a_configuration_that_is_not_there_is_an_acl_error(path: str | bytes) -> None:
    """A device library's messages are bytes in any encoding; they must not hide the error."""
    with pytest.raises(AclError) as caught:
        aclgrad_native.AclLibrary(aclgrad_native.library_files("host"), path)  # type: ignore[arg-type]
    name = path.decode(errors="replace") if isinstance(path, bytes) else path
    assert str(caught.value) == f"aclInit returned 100000: {caught.value.detail}"
    assert f"cannot read the configuration file {name}" in caught.value.detail
