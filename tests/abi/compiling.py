"""Programs that are written for CANN, compiled against the headers and linked with a library."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.abi.prototypes import INCLUDE

TESTS = Path(__file__).resolve().parents[1]
PROGRAMS = TESTS / "abi" / "programs"


def compile_program(
    name: str, libraries: Sequence[str | Path], folder: Path, *options: str, compiler: Sequence[str]
) -> Path:
    """Returns the program, which is made in the folder, as is the list of operators that the headers declare.

    A library without a folder is the linker's and the loader's to find.
    """
    subprocess.run([sys.executable, str(INCLUDE.parent / "operator_table.py"), str(folder)], check=True)
    program = folder / name
    subprocess.run(
        [*compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *options, f"-I{INCLUDE}", f"-I{TESTS}",
         f"-I{folder}", str(PROGRAMS / f"{name}.cpp"), "-o", str(program),
         *(option for each in libraries for option in _linked(str(each)))],
        check=True,
    )  # fmt: skip
    return program


def _linked(library: str) -> Iterator[str]:
    path = Path(library)
    yield f"-l:{path.name}"
    if "/" in library:
        yield f"-L{path.resolve().parent}"
        yield f"-Wl,-rpath,{path.resolve().parent}"
