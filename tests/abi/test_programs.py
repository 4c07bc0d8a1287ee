"""C++ programs written for CANN compile against the headers and run on the library, unchanged.

ACLGRAD_ABI_SANITIZE=address (or address,undefined or thread) runs them with that sanitizer, on a host library that is
built with it, once, under build/.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .prototypes import INCLUDE

PROGRAMS = Path(__file__).resolve().parent / "programs"
NATIVE = INCLUDE.parent
BUILD = NATIVE.parent / "build"
COMPILER = os.environ.get("CXX", "g++")
SANITIZE = os.environ.get("ACLGRAD_ABI_SANITIZE")

EXPECTED = {
    # 3x4 cells, 2x2 windows of 2x2 cells each; the middle row lies in two of them.
    "adaptive_avg_pool2d_backward": "1 1 2 2 4 4 6 6 3 3 4 4",
    # The elements numbered 2, 3, 8 and 11 of 10, 11, 12 and so on.
    "max_unpool3d_backward": "12 13 18 21",
    # 3x5 elements on 2x2 cells: the first two columns and the last three, the first row and the last two.
    "replication_pad2d_backward": "3 12 36 69",
    # Two of the four windows chose the cell in the middle.
    "max_pool2d_with_mask_backward": "0 0 0 0 3 0 3 0 4",
    # Each box has a sample on each of four cells, and a quarter of its element for each.
    "roi_align_v2_backward": "1 1 0 0 1 1 0 0 0 0 2 2 0 0 2 2",
}


@pytest.fixture(scope="package")
def programs_library(library_path: str) -> Path:
    if not SANITIZE:
        return Path(library_path).resolve()
    target = BUILD / f"abi-{SANITIZE.replace(',', '-')}"
    library = target / "aclgrad_native" / "libacl_host.so"
    sources = [NATIVE / "CMakeLists.txt", *(NATIVE / "host").rglob("*"), *INCLUDE.rglob("*")]
    if library.exists() and library.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return library
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(target),
         "-C", f"build-dir={target}/cmake", "-C", "cmake.define.HOST_ONLY=ON",
         "-C", f"cmake.define.SANITIZE={SANITIZE}", str(NATIVE)],
        check=True,
    )  # fmt: skip
    return library


@pytest.mark.parametrize("name", EXPECTED)
def test_program(programs_library: Path, tmp_path: Path, name: str) -> None:
    folder = programs_library.parent
    program = str(tmp_path / name)
    sanitize = [f"-fsanitize={SANITIZE}", "-g"] if SANITIZE else []
    subprocess.run(
        [COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", *sanitize, f"-I{INCLUDE}",
         str(PROGRAMS / f"{name}.cpp"), "-o", program, f"-L{folder}", f"-l:{programs_library.name}",
         f"-Wl,-rpath,{folder}"],
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
