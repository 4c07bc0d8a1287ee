"""C++ programs written for CANN compile against the headers and run on the library, unchanged.

ACLGRAD_SANITIZE runs them with sanitizers, on a host library that is built so: see tests/sanitizers.py.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests import sanitizers

from .prototypes import INCLUDE

PROGRAMS = Path(__file__).resolve().parent / "programs"
SANITIZE = sanitizers.SANITIZE

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


@pytest.mark.timeout(900)  # the first one may build the library
@pytest.mark.parametrize("name", EXPECTED)
def test_program(library_path: str, tmp_path: Path, name: str) -> None:
    library = (SANITIZE and sanitizers.build().library) or Path(library_path).resolve()
    folder = library.parent
    program = tmp_path / name
    sanitize = [f"-fsanitize={SANITIZE}", "-g"] if SANITIZE else []
    subprocess.run(
        [sanitizers.COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", *sanitize, f"-I{INCLUDE}",
         str(PROGRAMS / f"{name}.cpp"), "-o", str(program), f"-L{folder}", f"-l:{library.name}",
         f"-Wl,-rpath,{folder}"],
        check=True,
    )  # fmt: skip
    assert sanitizers.run(program).split() == EXPECTED[name].split()


def test_the_runtime_headers_are_c(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text('#include "acl/acl.h"\nint main(void) { return ACL_SUCCESS; }\n')
    subprocess.run(
        [os.environ.get("CC", "gcc"), "-std=c99", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", f"-I{INCLUDE}",
         "-fsyntax-only", str(source)],
        check=True,
    )  # fmt: skip
