"""The wheels of `make dist`, which runs these tests: made for what their tags say, and for no other system."""

import subprocess
import zipfile
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


def test_native_wheels_are_of_their_tag(built: dict[str, Path]) -> None:
    found = {platform_of(name)[1]: path for name, path in built.items()}
    assert found.keys() & MACHINES.keys()
    for architecture in found.keys() & MACHINES.keys():
        assert not is_later(platform_of(found[architecture].name)[0])
        with zipfile.ZipFile(found[architecture]) as archive:
            compiled = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
        assert len(compiled) == 3, architecture
        for name, data in compiled.items():
            assert int.from_bytes(data[18:20], "little") == MACHINES[architecture], name
            assert b"libstdc++" not in data
            assert "/_native." not in name or name.endswith(f"-{architecture}-linux-gnu.so")


def test_nothing_tells_where_it_was_built(built: dict[str, Path]) -> None:
    folder = str(ROOT).encode()
    for path in built.values():
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                assert [name for name in archive.namelist() if folder in archive.read(name)] == [], path


def test_musl_is_refused_by_name(tmp_path: Path) -> None:
    compiler = f"-DCMAKE_CXX_COMPILER={ZIG};c++;-target;x86_64-linux-musl"
    # Without programs, for which zig would first build the whole of musl: two minutes.
    known = ["-DCMAKE_CXX_COMPILER_FORCED=ON", "-DCMAKE_CXX_COMPILER_ID_RUN=ON", "-DCMAKE_CXX_COMPILER_ID=Clang"]
    trials = "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"
    command = ["cmake", "-S", str(ROOT / "native"), "-B", str(tmp_path), compiler, *known, trials]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "aclgrad-native needs glibc" in " ".join(done.stderr.split())
