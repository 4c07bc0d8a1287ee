"""Tables derived from the ABI's headers: a mismatch is reported by name, here or by the build."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aclgrad_native
from aclgrad.operators.catalogue import OPERATORS
from tests.sanitizers import COMPILER, NATIVE

pytestmark = pytest.mark.once

HEADER = """
#include "aclnn/aclnn_base.h"
#include "acl/acl_rt.h"
extern "C" {{
ACLNN_API aclnnStatus aclnnExampleBackwardGetWorkspaceSize(const aclTensor* gradOutput, {parameter} extra,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor);
ACLNN_API aclnnStatus {phase2}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
}}
"""


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """A copy of the tables' sources with one more operator."""
    native = tmp_path / "native"
    shutil.copytree(NATIVE / "include", native / "include")
    for plan in NATIVE.glob("host/operators/*/plan.cpp"):
        copy = native / plan.relative_to(NATIVE)
        copy.parent.mkdir(parents=True)
        copy.touch()
    shutil.copy(NATIVE / "operator_table.py", native)
    declare(native)
    implement(native, "example_backward")
    return native


def declare(native: Path, parameter: str = "int64_t", phase2: str = "aclnnExampleBackward") -> None:
    (native / "include/aclnnop/aclnn_example.h").write_text(HEADER.format(parameter=parameter, phase2=phase2))


def implement(native: Path, folder: str) -> None:
    (native / "host/operators" / folder).mkdir()
    (native / "host/operators" / folder / "plan.cpp").touch()


def make_tables(native: Path) -> str:
    """Returns the output of the build."""
    command = [sys.executable, str(native / "operator_table.py"), str(native / "tables")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode == 0) == (finished.stderr == "")
    return finished.stderr


def compile_rows(native: Path) -> str:
    """Compiles the runtime's rows for these headers; returns the compiler's output."""
    assert make_tables(native) == ""
    folders = [native / "tables", native / "include", NATIVE / "runtime"]
    source = str(NATIVE / "runtime/operators.cpp")
    command = [COMPILER, "-std=c++17", "-fsyntax-only", *(f"-I{folder}" for folder in folders), source]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("parameter", ["bool", "int8_t", "int32_t", "int64_t", "float", "double", "const aclIntArray*"])
def test_declared_operator_has_exports_and_a_row(native: Path, parameter: str) -> None:
    declare(native, parameter)
    assert compile_rows(native) == ""
    assert "ROW(aclnnExampleBackward)" in (native / "tables/operator_table.h").read_text()
    exported = (native / "tables/exports.map").read_text().split()
    assert {"aclnnExampleBackward;", "aclnnExampleBackwardGetWorkspaceSize;", "aclrtMalloc;"} <= set(exported)


@pytest.mark.parametrize("parameter", ["const char*", "uint32_t", "aclDataType", "const aclOpExecutor*"])
def test_parameter_that_the_runtime_cannot_pass_is_an_error_of_the_build(native: Path, parameter: str) -> None:
    declare(native, parameter)
    printed = compile_rows(native)
    assert "aclnnExampleBackwardGetWorkspaceSize" in printed
    assert "add it to ArgumentReader::Next" in printed


def test_row_without_a_kernel_is_an_error_of_the_build(native: Path) -> None:
    shutil.rmtree(native / "host/operators/example_backward")
    printed = make_tables(native)
    assert "aclnn_example.h declares aclnnExampleBackward, which has no kernel" in printed
    assert "host/operators/example_backward/plan.cpp" in printed


def test_kernel_without_a_header_is_an_error_of_the_build(native: Path) -> None:
    implement(native, "forgotten_backward")
    printed = make_tables(native)
    assert "operators/forgotten_backward implements no operator" in printed
    assert "include/aclnnop" in printed


def test_phase_without_the_other_is_an_error_of_the_build(native: Path) -> None:
    declare(native, phase2="aclnnExampleBackwards")
    printed = make_tables(native)
    assert "aclnnExampleBackwardGetWorkspaceSize without aclnnExampleBackward:" in printed
    assert "aclnnExampleBackwards without aclnnExampleBackwardsGetWorkspaceSize:" in printed


def test_wrong_declarations_are_errors_of_the_build(native: Path) -> None:
    """Without ACLNN_API, in two headers, and a header without any."""
    folder = native / "include/aclnnop"
    example = (folder / "aclnn_example.h").read_text()
    (folder / "aclnn_example.h").write_text(
        example.replace("ACLNN_API aclnnStatus aclnnExampleBackward(", "aclnnStatus aclnnExampleBackward(")
    )
    (folder / "aclnn_none.h").write_text("// ACLNN_API aclnnStatus aclnnNone(\n")
    printed = make_tables(native)
    assert "aclnn_example.h declares aclnnExampleBackward without ACLNN_API: begin the line" in printed
    assert "aclnn_none.h declares no operator" in printed
    assert "aclnnNone " not in printed
    (folder / "aclnn_none.h").write_text(example)
    (folder / "aclnn_example.h").write_text(example)
    printed = make_tables(native)
    for name in ("aclnnExampleBackward", "aclnnExampleBackwardGetWorkspaceSize"):
        assert re.search(
            rf"aclnn_none\.h declares {name}, as \S+aclnn_example\.h does: declare it in one of them", printed
        )


def test_every_operator_has_a_row_and_a_spec() -> None:
    rows, specs = set(aclgrad_native.operator_symbols()), {spec.symbol for spec in OPERATORS.values()}
    assert not specs - rows, "declare these in native/include/aclnnop"
    assert not rows - specs, "write a spec of these in client/src/aclgrad/operators"
