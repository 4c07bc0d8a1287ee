"""What programs ask about the platform: capabilities, attributes, versions of packages, and their lines in the log."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.abi.acl import Library

INVALID_PARAM, INVALID_FILE = 100000, 100003
RUNTIME, DRIVER, NO_PACKAGE = 1, 7, 8


class Version(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_char * size)
        for name, size in (("whole", 128), ("major", 64), ("minor", 64), ("release", 64), ("patch", 64), ("rest", 128))
    ]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a package with this file of its version."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))

    def install(package: str, text: str) -> None:
        folder = tmp_path / "share/info" / package
        folder.mkdir(parents=True)
        (folder / "version.info").write_text(text)

    return install


@pytest.mark.needs("settings")
def test_capabilities_of_the_host(acl: Library) -> None:
    value = ctypes.c_int64(-1)
    for information in (0, 1, 2):
        assert acl.aclGetDeviceCapability(0, information, ctypes.byref(value)) == 0
        assert value.value >= (0 if information == 2 else 1)
    assert acl.aclGetDeviceCapability(1000, 0, ctypes.byref(value)) == INVALID_PARAM
    assert acl.aclGetDeviceCapability(0, 3, ctypes.byref(value)) == INVALID_PARAM
    assert acl.aclGetDeviceCapability(0, 0, None) == INVALID_PARAM


def test_attributes(acl: Library) -> None:
    value = ctypes.c_int32(-1)
    for attribute in (0, 1, 2):
        assert acl.aclGetCannAttribute(attribute, ctypes.byref(value)) == 0
        assert value.value in (0, 1)
    assert acl.aclGetCannAttribute(3, ctypes.byref(value)) == INVALID_PARAM
    assert acl.aclGetCannAttribute(0, None) == INVALID_PARAM


@pytest.mark.needs("settings")
def test_versions_of_installed_packages(acl: Library, installed: Callable[[str, str], None]) -> None:
    installed("runtime", "# a package\nVersion=8.5.0.alpha003 \nother=1\n")
    installed("ops_legacy", "Version=8.5.0\n")
    version, text = Version(), ctypes.create_string_buffer(128)
    assert acl.aclsysGetCANNVersion(RUNTIME, ctypes.byref(version)) == 0
    parts = version.whole, version.major, version.minor, version.release, version.patch
    assert parts == (b"8.5.0.alpha003", b"8", b"5", b"0", b"alpha003")
    assert acl.aclsysGetVersionStr(b"ops-legacy", text) == 0
    assert text.value == b"8.5.0"
    assert acl.aclsysGetCANNVersion(DRIVER, ctypes.byref(version)) == INVALID_FILE
    assert acl.aclsysGetCANNVersion(NO_PACKAGE, ctypes.byref(version)) == INVALID_PARAM
    assert acl.aclsysGetVersionStr(b"hccl", text) == INVALID_FILE
    assert acl.aclsysGetVersionStr(None, text) == INVALID_PARAM


@pytest.mark.needs("settings")
@pytest.mark.parametrize(("level", "shown"), [("0", True), (None, False)])
def test_lines_of_programs(
    run_program: Callable[..., list[str]], library_path: str, level: str | None, shown: bool
) -> None:
    program = (
        f"acl = ctypes.CDLL({library_path!r})\n"
        "acl.aclAppLog(1, b'work', b'file.cpp', 7, b'%s of %d', b'one', ctypes.c_int(2))\n"
        "acl.aclAppLog(3, b'work', b'file.cpp', 8, b'%s', b'x' * 5000)\n"
        "acl.aclAppLog(3, b'work', b'file.cpp', 9, None)\n"
    )
    levels = {} if level is None else {"ASCEND_GLOBAL_LOG_LEVEL": level}
    lines = run_program(program, ASCEND_SLOG_PRINT_TO_STDOUT="1", **levels)
    assert [line for line in lines if "one of 2" in line] == ['[INFO] work:file.cpp:7: "one of 2"'] * shown
    assert lines[-1] == f'[ERROR] work:file.cpp:8: "{"x" * 1023}"'
