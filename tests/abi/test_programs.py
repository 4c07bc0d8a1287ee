"""C++ programs written for CANN compile against the headers and run on the library, unchanged."""

import os
import subprocess
from pathlib import Path

import pytest

from .prototypes import INCLUDE

PROGRAMS = Path(__file__).resolve().parent / "programs"
COMPILER = os.environ.get("CXX", "g++")

EXPECTED = {
    # 3x4 cells, 2x2 windows of 2x2 cells each; the middle row lies in two of them.
    "adaptive_avg_pool2d_backward": "1 1 2 2 4 4 6 6 3 3 4 4",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_program(library_path: str, tmp_path: Path, name: str) -> None:
    folder, library = os.path.split(os.path.abspath(library_path))
    program = str(tmp_path / name)
    subprocess.run(
        [COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", str(PROGRAMS / f"{name}.cpp"),
         "-o", program, f"-L{folder}", f"-l:{library}", f"-Wl,-rpath,{folder}"],
        check=True,
    )  # fmt: skip
    finished = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == EXPECTED[name].split()


def test_the_runtime_headers_are_c(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text('#include "acl/acl.h"\nint main(void) { return ACL_SUCCESS; }\n')
    subprocess.run(
        [os.environ.get("CC", "gcc"), "-std=c99", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", f"-I{INCLUDE}",
         "-fsyntax-only", str(source)],
        check=True,
    )  # fmt: skip
