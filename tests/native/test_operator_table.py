"""Tables derived from the ABI's headers: a mismatch is reported by name."""

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import aclgrad_native
from aclgrad.operators.catalogue import OPERATORS
from tests.sanitizers import NATIVE

HEADER = """
#include "aclnn/aclnn_base.h"
#include "acl/acl_rt.h"
extern "C" {{
ACLNN_API aclnnStatus {name}GetWorkspaceSize(const aclTensor* gradOutput, int64_t extra, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus {phase2}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
}}
"""


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """A copy of the tables' sources with one more operator."""
    native = tmp_path / "native"
    shutil.copytree(NATIVE / "include", native / "include")
    for source in NATIVE.glob("host/*/*/plan*.cpp"):
        copy = native / source.relative_to(NATIVE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    declare(native)
    implement(native, "ExampleBackward")
    return native


def declare(native: Path, phase2: str = "aclnnExampleBackward") -> None:
    text = HEADER.format(name="aclnnExampleBackward", phase2=phase2)
    (native / "include/aclnnop/aclnn_example.h").write_text(text)


def implement(native: Path, name: str) -> None:
    plan = native / "host/operators" / name.lower() / "plan.cpp"
    plan.parent.mkdir(parents=True)
    plan.write_text(f"Plan Plan{name}(const {name}Arguments& arguments) {{\n  return {{}};\n}}\n")


def make_tables(native: Path) -> str:
    """Returns what the build says that is wrong."""
    main = runpy.run_path(str(NATIVE / "operator_table.py"))["main"]
    return main(native, native / "tables") or ""


def remove_kernel(native: Path) -> None:
    shutil.rmtree(native / "host/operators/examplebackward")


def declare_without_api(native: Path) -> None:
    header = native / "include/aclnnop/aclnn_example.h"
    phase2 = "aclnnStatus aclnnExampleBackward("
    header.write_text(header.read_text().replace(f"ACLNN_API {phase2}", phase2))


def declare_nothing(native: Path) -> None:
    (native / "include/aclnnop/aclnn_none.h").write_text("// ACLNN_API aclnnStatus aclnnNone(\n")


def declare_twice(native: Path) -> None:
    folder = native / "include/aclnnop"
    shutil.copy(folder / "aclnn_example.h", folder / "aclnn_none.h")


@pytest.mark.parametrize(
    ("edit", "texts"),
    [
        (remove_kernel, ["declares aclnnExampleBackward, which has no kernel", "example_backward/plan.cpp"]),
        (
            lambda native: implement(native, "ForgottenBackward"),
            ["plan.cpp plans aclnnForgottenBackward, which no header declares", "include/aclnnop"],
        ),
        (
            lambda native: declare(native, phase2="aclnnExampleBackwards"),
            ["GetWorkspaceSize without aclnnExampleBackward:", "aclnnExampleBackwards without aclnn"],
        ),
        (declare_without_api, ["declares aclnnExampleBackward without ACLNN_API: begin the line"]),
        (declare_nothing, ["aclnn_none.h declares no operator"]),
        (declare_twice, ["aclnn_none.h declares aclnnExampleBackward, as ", "declare it in one of them"]),
    ],
)
def test_a_wrong_declaration_is_an_error_of_the_build(
    native: Path, edit: Callable[[Path], None], texts: list[str]
) -> None:
    edit(native)
    printed = make_tables(native)
    assert [text for text in texts if text not in printed] == []


def test_every_operator_has_a_row_and_a_spec() -> None:
    rows, specs = set(aclgrad_native.operator_symbols()), {spec.symbol for spec in OPERATORS.values()}
    assert not specs - rows, "declare these in native/include/aclnnop"
    assert not rows - specs, "write a spec of these in client/src/aclgrad/operators"
