"""Tables derived from the ABI's headers: a mismatch is reported by name, here or by the build."""

import re
import runpy
import shutil
import subprocess
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
ACLNN_API aclnnStatus {name}GetWorkspaceSize(const aclTensor* gradOutput, {parameter} extra, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus {phase2}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
}}
"""
PASSED = [
    *("bool", "int8_t", "int32_t", "int64_t", "uint64_t", "float", "double", "char*", "const char*"),
    *("const aclIntArray*", "const aclBoolArray*", "const aclScalar*"),
]
"""The parameters that the runtime can pass."""
REFUSED = ["const void*", "uint32_t", "aclDataType", "const aclOpExecutor*"]


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """A copy of the tables' sources with one more operator."""
    native = tmp_path / "native"
    shutil.copytree(NATIVE / "include", native / "include")
    for pattern in ("host/operators/*/plan.cpp", "host/families/*/operators.cpp"):
        for source in NATIVE.glob(pattern):
            copy = native / source.relative_to(NATIVE)
            copy.parent.mkdir(parents=True)
            shutil.copy(source, copy)
    add(native)
    return native


def add(native: Path, name: str = "Example", parameter: str = "int64_t") -> None:
    """Adds an operator with this parameter."""
    declare(native, name, parameter)
    implement(native, f"{name}Backward")


def declare(native: Path, name: str = "Example", parameter: str = "int64_t", phase2: str = "") -> None:
    symbol = f"aclnn{name}Backward"
    text = HEADER.format(name=symbol, parameter=parameter, phase2=phase2 or symbol)
    (native / f"include/aclnnop/aclnn_{name.lower()}.h").write_text(text)


def implement(native: Path, name: str) -> None:
    plan = native / "host/operators" / name.lower() / "plan.cpp"
    plan.parent.mkdir(parents=True)
    plan.write_text(f"Plan Plan{name}(const {name}Arguments& arguments) {{\n  return {{}};\n}}\n")


def make_tables(native: Path) -> str:
    """Returns what the build says that is wrong."""
    main = runpy.run_path(str(NATIVE / "operator_table.py"))["main"]
    return main(native, native / "tables") or ""


def compile_rows(native: Path) -> str:
    """Compiles the runtime's rows for these headers; returns the compiler's output."""
    assert make_tables(native) == ""
    folders = [native / "tables", native / "include", NATIVE / "runtime"]
    source = str(NATIVE / "runtime/operators.cpp")
    command = [COMPILER, "-std=c++17", "-fsyntax-only", *(f"-I{folder}" for folder in folders), source]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_declared_operator_has_exports_and_a_row(native: Path) -> None:
    assert make_tables(native) == ""
    assert "ROW(aclnnExampleBackward)" in (native / "tables/operator_table.h").read_text()
    exported = (native / "tables/exports.map").read_text().split()
    assert {"aclnnExampleBackward;", "aclnnExampleBackwardGetWorkspaceSize;", "aclrtMalloc;"} <= set(exported)
    plans = (native / "tables/operator_plans.h").read_text()
    fields = "  const aclTensor* grad_output;\n  int64_t extra;\n  aclTensor* out;\n"
    assert f"struct ExampleBackwardArguments {{\n{fields}}};\n" in plans
    entry_points = (native / "tables/entry_points.cpp").read_text()
    assert "acl_host::PlanExampleBackward({gradOutput, extra, out})" in entry_points


def test_operators_with_equal_arguments_share_their_type(native: Path) -> None:
    add(native, "Second")
    assert make_tables(native) == ""
    plans = (native / "tables/operator_plans.h").read_text()
    assert "using SecondBackwardArguments = ExampleBackwardArguments;" in plans


@pytest.mark.slow
def test_parameters_that_the_runtime_cannot_pass_are_errors_of_the_build(native: Path) -> None:
    """One operator for each kind of parameter."""
    for number, parameter in enumerate(PASSED):
        add(native, f"Passed{number}", parameter)
    assert compile_rows(native) == ""
    for number, parameter in enumerate(REFUSED):
        add(native, f"Refused{number}", parameter)
    printed = compile_rows(native)
    assert printed.count("add it to ArgumentReader::Next") >= len(REFUSED)
    assert set(re.findall(r"aclnnRefused\dBackward", printed)) == {
        f"aclnnRefused{number}Backward" for number in range(len(REFUSED))
    }
    assert "aclnnPassed" not in printed


def test_row_without_a_kernel_is_an_error_of_the_build(native: Path) -> None:
    shutil.rmtree(native / "host/operators/examplebackward")
    printed = make_tables(native)
    assert "aclnn_example.h declares aclnnExampleBackward, which has no kernel" in printed
    assert "host/operators/example_backward/plan.cpp, as the function PlanExampleBackward" in printed


def test_kernel_without_a_header_is_an_error_of_the_build(native: Path) -> None:
    implement(native, "ForgottenBackward")
    printed = make_tables(native)
    assert "plan.cpp plans aclnnForgottenBackward, which no header declares" in printed
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


@pytest.mark.parametrize(
    ("symbol", "folder"),
    [
        ("aclnnUpsampleNearest2dBackward", "upsample_nearest2d_backward"),
        ("aclnnGridSampler2DBackward", "grid_sampler2d_backward"),
        ("aclnnNLLLossBackward", "nll_loss_backward"),
        ("aclnnL1LossBackward", "l1_loss_backward"),
        ("aclnnGeluBackwardV2", "gelu_backward_v2"),
    ],
)
def test_folders_have_the_names_that_a_reader_expects(symbol: str, folder: str) -> None:
    assert runpy.run_path(str(NATIVE / "operator_table.py"))["folder_of"](symbol) == folder


def test_every_operator_has_a_row_and_a_spec() -> None:
    rows, specs = set(aclgrad_native.operator_symbols()), {spec.symbol for spec in OPERATORS.values()}
    assert not specs - rows, "declare these in native/include/aclnnop"
    assert not rows - specs, "write a spec of these in client/src/aclgrad/operators"
