"""The host library on other processors: on an old x86-64 without AVX, and cross-compiled for aarch64.

`make test-aarch64` installs the cross compiler and the emulators that this needs; it is no part of `make test`.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from aclgrad_native.backends import host_library
from tests.abi.prototypes import INCLUDE
from tests.abi.test_programs import EXPECTED, PROGRAMS

HERE = Path(__file__).parent
CROSS = "aarch64-linux-gnu-g++"
LIBRARY = Path(os.environ.get("ACLGRAD_AARCH64_LIBRARY", "build/aarch64/libacl_host.so")).resolve()
ON_AARCH64 = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
ON_OLD_X86 = ("qemu-x86_64", "-cpu", "Nehalem")

pytestmark = pytest.mark.timeout(600)


def run(compiler: str, source: Path, library: Path, folder: Path, *launcher: str) -> list[str]:
    """Compiles a program, runs it and returns the words that it prints."""
    program = folder / f"{source.stem}-{compiler}"
    subprocess.run(
        [compiler, "-std=c++17", "-O1", f"-I{INCLUDE}", str(source), "-o", str(program), f"-L{library.parent}",
         f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"],
        check=True,
    )  # fmt: skip
    finished = subprocess.run([*launcher, str(program)], capture_output=True, text=True, timeout=500, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.split()


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Of the gradients that this processor computes."""
    library = Path(os.environ.get("ACLGRAD_ABI_LIBRARY", host_library()))
    return run("g++", HERE / "gradients.cpp", library, tmp_path_factory.mktemp("native"))


@pytest.mark.parametrize("name", EXPECTED)
def test_programs_run_on_aarch64(tmp_path: Path, name: str) -> None:
    assert run(CROSS, PROGRAMS / f"{name}.cpp", LIBRARY, tmp_path, *ON_AARCH64) == EXPECTED[name].split()


def test_gradients_are_the_same_bits_on_aarch64(tmp_path: Path, digest: list[str]) -> None:
    assert run(CROSS, HERE / "gradients.cpp", LIBRARY, tmp_path, *ON_AARCH64) == digest


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="runs the library of this processor")
def test_gradients_are_the_same_bits_without_avx(tmp_path: Path, digest: list[str]) -> None:
    assert shutil.which(ON_OLD_X86[0])
    library = Path(os.environ.get("ACLGRAD_ABI_LIBRARY", host_library()))
    assert run("g++", HERE / "gradients.cpp", library, tmp_path, *ON_OLD_X86) == digest
