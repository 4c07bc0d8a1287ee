"""The wheels of `make dist`, which runs these tests: made for what their tags say, and for no other system."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.wheels import is_later, platform_of
from tools.wheels.__main__ import ROOT, ZIG

MACHINES = {"x86_64": 62, "aarch64": 183}
"""Of ELF's header."""


@pytest.fixture(scope="module")
def built() -> dict[str, Path]:
    """The wheels and archives by name."""
    return {path.name: path for path in sorted((ROOT / "dist").iterdir())}


def natives(built: dict[str, Path]) -> dict[str, Path]:
    """Returns the native wheels by the architecture in their names."""
    found = {platform_of(name)[1]: path for name, path in built.items()}
    return {architecture: found[architecture] for architecture in MACHINES if architecture in found}


@cache
def compiled(wheel: Path) -> dict[str, bytes]:
    """Returns the shared libraries of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}


def libraries(built: dict[str, Path]) -> Iterator[tuple[str, str, bytes]]:
    for architecture, wheel in natives(built).items():
        for name, data in compiled(wheel).items():
            yield architecture, name, data


def test_native_wheels_are_of_their_tag(built: dict[str, Path]) -> None:
    assert natives(built)
    for architecture, wheel in natives(built).items():
        assert not is_later(platform_of(wheel.name)[0])
        assert len(compiled(wheel)) == 3, architecture
    for architecture, name, data in libraries(built):
        assert int.from_bytes(data[18:20], "little") == MACHINES[architecture], name
        if "/_native." in name:
            assert name.endswith(f"-{architecture}-linux-gnu.so")


def test_no_library_needs_a_later_glibc(built: dict[str, Path]) -> None:
    for architecture, name, data in libraries(built):
        needed = {each.decode() for each in re.findall(rb"GLIBC_(\d+(?:\.\d+)+)\0", data)}
        assert needed, (architecture, name)
        assert [each for each in needed if is_later(each)] == [], (architecture, name)
        assert b"libstdc++" not in data


def test_nothing_tells_where_it_was_built(built: dict[str, Path]) -> None:
    folder = str(ROOT).encode()
    for path in built.values():
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                assert [name for name in archive.namelist() if folder in archive.read(name)] == [], path


@pytest.mark.parametrize("platform", ["musllinux_1_2_x86_64", "manylinux_2_17_x86_64", "macosx_11_0_arm64"])
def test_pip_finds_no_native_wheel_for_other_systems(built: dict[str, Path], tmp_path: Path, platform: str) -> None:
    folder = next(iter(built.values())).parent
    pip = [sys.executable, "-m", "pip", "download", "--no-index", "--find-links", str(folder), "--dest", str(tmp_path)]
    wanted = ["--no-deps", "--only-binary", ":all:", "--platform", platform, "aclgrad-native"]
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "No matching distribution found for aclgrad-native" in done.stderr


def test_musl_is_refused_by_name(tmp_path: Path) -> None:
    compiler = f"-DCMAKE_CXX_COMPILER={ZIG};c++;-target;x86_64-linux-musl"
    # Without programs, for which zig would first build the whole of musl.
    trials = ["-DCMAKE_CXX_COMPILER_FORCED=ON", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    command = ["cmake", "-S", str(ROOT / "native"), "-B", str(tmp_path), compiler, *trials]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "aclgrad-native needs glibc" in " ".join(done.stderr.split())
