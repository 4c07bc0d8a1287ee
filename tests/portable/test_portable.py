"""The host library on other processors: on an old x86-64 without AVX, and the aarch64 wheel's under emulation.

`make test-aarch64` builds and installs what this needs; it is no part of `make test`.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from aclgrad_native.backends import host_library
from tests.abi.compiling import compile_program
from tests.abi.table_gradients import sweep
from tests.call_file import write_calls
from tests.portable.emulated import PACKAGES_FOLDER, QEMU
from tools.wheels import GLIBC
from tools.wheels.__main__ import ZIG

CROSS = (str(ZIG), "c++", "-target", f"aarch64-linux-gnu.{GLIBC}")
HOST_LIBRARY = Path(os.environ.get("ACL_LIBRARY", host_library()))
AARCH64_LIBRARY = PACKAGES_FOLDER / "aclgrad_native/libacl_host.so"
ON_OLD_X86 = ("qemu-x86_64", "-cpu", "Nehalem")
OFFSET = "1"
"""Of every operand: a byte behind what suits vectors."""

pytestmark = pytest.mark.timeout(1800)


def gradients(compiler: Sequence[str], library: Path, folder: Path, *launcher: str) -> bytes:
    """Compiles the program that runs calls, runs it and returns the outputs."""
    program = compile_program("run_calls", [library], folder, compiler=compiler)
    calls = write_calls(folder / "calls", (typed for typed in sweep() if not typed.case.name.startswith("timed")))
    outputs = folder / "outputs"
    command = [*launcher, str(program), str(calls), str(outputs), OFFSET]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    return outputs.read_bytes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What this processor computes."""
    return gradients(["g++"], HOST_LIBRARY, tmp_path_factory.mktemp("native"))


def test_gradients_are_the_same_bits_on_aarch64(tmp_path: Path, expected: bytes) -> None:
    """Of another compiler as well: the wheel's is clang."""
    assert gradients(CROSS, AARCH64_LIBRARY, tmp_path, *QEMU) == expected


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="runs the library of this processor")
def test_gradients_are_the_same_bits_without_avx(tmp_path: Path, expected: bytes) -> None:
    assert shutil.which(ON_OLD_X86[0])
    assert gradients(["g++"], HOST_LIBRARY, tmp_path, *ON_OLD_X86) == expected
