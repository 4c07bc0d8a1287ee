"""The host library on other processors: on an old x86-64 without AVX, and cross-compiled for aarch64.

`make test-aarch64` installs the cross compiler and the emulators that this needs; it is no part of `make test`.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from aclgrad_native.backends import host_library
from tests.abi.compiling import compile_program
from tests.abi.table_gradients import sweep
from tests.call_file import write_calls

CROSS = "aarch64-linux-gnu-g++"
HOST_LIBRARY = Path(os.environ.get("ACL_LIBRARY", host_library()))
AARCH64_LIBRARY = Path(os.environ.get("ACLGRAD_AARCH64_LIBRARY", "build/aarch64/libacl_host.so")).resolve()
ON_AARCH64 = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
ON_OLD_X86 = ("qemu-x86_64", "-cpu", "Nehalem")
OFFSET = "1"
"""Of every operand: a byte behind what suits vectors."""

pytestmark = pytest.mark.timeout(600)


def gradients(compiler: str, library: Path, folder: Path, *launcher: str) -> bytes:
    """Compiles the program that runs calls, runs it and returns the outputs."""
    program = compile_program("run_calls", [library], folder, compiler=compiler)
    calls = write_calls(folder / "calls", (typed for typed in sweep() if not typed.case.name.startswith("timed")))
    outputs = folder / "outputs"
    command = [*launcher, str(program), str(calls), str(outputs), OFFSET]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    return outputs.read_bytes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What this processor computes."""
    return gradients("g++", HOST_LIBRARY, tmp_path_factory.mktemp("native"))


def test_gradients_are_the_same_bits_on_aarch64(tmp_path: Path, expected: bytes) -> None:
    assert gradients(CROSS, AARCH64_LIBRARY, tmp_path, *ON_AARCH64) == expected


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="runs the library of this processor")
def test_gradients_are_the_same_bits_without_avx(tmp_path: Path, expected: bytes) -> None:
    assert shutil.which(ON_OLD_X86[0])
    assert gradients("g++", HOST_LIBRARY, tmp_path, *ON_OLD_X86) == expected
