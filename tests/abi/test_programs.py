"""C++ programs written for CANN compile against the headers and run on the library, unchanged.

ACLGRAD_SANITIZE runs them with sanitizers, on a host library that is built so: see tests/sanitizers.py.
"""

import os
import subprocess
from pathlib import Path

import pytest

from aclgrad.operators.cases import typed_cases
from tests import sanitizers
from tests.bounds import assert_defined
from tests.call_file import PRODUCT, split_outputs, write_calls
from tools.abi.prototypes import INCLUDE

from .compiling import compile_program
from .table_calls import TABLED

SANITIZE = sanitizers.SANITIZE

pytestmark = pytest.mark.timeout(900)  # the first one may build the library

CASES = [typed for typed in typed_cases(PRODUCT, *TABLED) if all(map(all, typed.case.shapes.values()))]


@pytest.mark.slow
def test_every_case(library_path: str, tmp_path: Path) -> None:
    files = [str((SANITIZE and sanitizers.build().library) or "")] if SANITIZE else library_path.split(os.pathsep)
    options = [f"-fsanitize={SANITIZE}", "-g"] if SANITIZE else []
    program = compile_program("run_calls", files, tmp_path, *options, compiler=[sanitizers.COMPILER])
    calls, outputs = write_calls(tmp_path / "calls", CASES), tmp_path / "outputs"
    assert sanitizers.run(program, str(calls), str(outputs)) == ""
    for typed, gradient in zip(CASES, split_outputs(outputs, CASES), strict=True):
        assert_defined(typed, gradient, PRODUCT)


def test_the_runtime_headers_are_c(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text('#include "acl/acl.h"\nint main(void) { return ACL_SUCCESS; }\n')
    subprocess.run(
        [os.environ.get("CC", "gcc"), "-std=c99", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", f"-I{INCLUDE}",
         "-fsyntax-only", str(source)],
        check=True,
    )  # fmt: skip
