"""Which versions of the driver and of CANN are installed."""

from pathlib import Path

import pytest

from aclgrad_native import installed_versions

pytestmark = pytest.mark.once


def write(file: Path, text: bytes) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(text)


def test_versions_are_those_of_the_driver_and_of_each_package(tmp_path: Path) -> None:
    write(tmp_path / "driver/version.info", b"Version=25.0.rc1\nascendhal_version=7.35.19\n")
    write(tmp_path / "cann/runtime/version.info", b"timestamp=20250303\nVersion=7.7.0.1.238\n")
    write(tmp_path / "cann/opp/version.info", b"# \xff\nversion = [8.1.RC1]\n")
    write(tmp_path / "cann/empty/version.info", b"none\n")
    (tmp_path / "cann/folder/version.info").mkdir(parents=True)
    found = installed_versions({"ASCEND_HOME_PATH": f"{tmp_path}/cann"}, tmp_path / "driver")
    assert found == {"driver": "25.0.rc1", "opp": "8.1.RC1", "runtime": "7.7.0.1.238"}


def test_nothing_is_installed(tmp_path: Path) -> None:
    assert installed_versions({"ASCEND_HOME_PATH": str(tmp_path)}, tmp_path / "driver") == {}
