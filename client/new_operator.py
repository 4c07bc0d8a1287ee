"""Writes the stubs of a new operator from its declaration in native/include/aclnnop, and prints the remaining steps.

Usage: make new-operator NAME=upsample_nearest2d_backward SYMBOL=aclnnUpsampleNearest2dBackward [LIKE=OPERATOR]

With LIKE, the stubs are copies of another operator's files under the new names, for example one of the same family.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "native"))

from operator_table import find_wrong_declarations, folder_of  # noqa: E402 - the build's own rule

HEADERS = ROOT / "native/include/aclnnop"
PYTHON = ROOT / "client/src/aclgrad/operators"
NATIVE = ROOT / "native/host/operators"
KINDS = {
    "bool": ("BOOL", "bool"),
    "int8_t": ("INT", "int"),
    "int32_t": ("INT", "int"),
    "int64_t": ("INT", "int"),
    "float": ("DOUBLE", "float"),
    "double": ("DOUBLE", "float"),
    "aclIntArray": ("INTS", "Sequence[int]"),
}
"""An attribute's kind in the table and its Python type, by its C type."""


class Parameter(NamedTuple):
    """One parameter of phase 1."""

    declaration: str
    type: str
    abi_name: str

    @property
    def name(self) -> str:
        """The wire name: CANN's in snake case; the gradient has the same name for all operators."""
        name = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: "_" + found[0].lower(), self.abi_name)
        return "grad_output" if name == "grad_out" else name

    @property
    def python_name(self) -> str:
        return "input" if self.name == "self" else self.name


class Declaration(NamedTuple):
    """Phase 1 of an operator, from its header."""

    header: str
    inputs: list[Parameter]
    attributes: list[Parameter]
    output: Parameter

    @property
    def parameters(self) -> list[Parameter]:
        return [*self.inputs, *self.attributes, self.output]


def declaration_of(symbol: str) -> Declaration:
    for header in sorted(HEADERS.glob("*.h")):
        found = re.search(rf"\b{symbol}GetWorkspaceSize\(([^)]*)\)", header.read_text())
        if found:
            return parsed(header.name, found[1])
    raise SystemExit(
        f"no header in {HEADERS.relative_to(ROOT)} declares {symbol}GetWorkspaceSize; "
        "first add the header with both functions, under the file name that CANN gives it"
    )


def parsed(header: str, text: str) -> Declaration:
    parameters = []
    for each in text.split(","):
        words = each.replace("*", " ").replace("const ", " ").split()
        parameters.append(Parameter(" ".join(each.split()), words[0], words[-1]))
    *parameters, _, _ = parameters
    tensors = [each for each in parameters if each.type == "aclTensor"]
    attributes = [each for each in parameters if each.type != "aclTensor"]
    for each in attributes:
        if each.type not in KINDS:
            raise SystemExit(f"{header}: {each.abi_name} has the type {each.type}; known are {', '.join(KINDS)}")
    return Declaration(header, tensors[:-1], attributes, tensors[-1])


def python_files(name: str, symbol: str, declared: Declaration) -> dict[str, str]:
    inputs = "\n".join(
        f'        InputSpec("{each.name}", "What it is, and its shape.", _DTYPES, _RANKS),' for each in declared.inputs
    )
    attributes = "\n".join(
        f'        AttributeSpec("{each.name}", "What it does.", AttributeKind.{KINDS[each.type][0]}),'
        for each in declared.attributes
    )
    used = "".join(f"    {kind},\n" for kind in ("AttributeKind", "AttributeSpec") if declared.attributes)
    return {
        "__init__.py": f'"""{symbol}: what it computes."""\n',
        "spec.py": SPEC.format(
            name=name, symbol=symbol, inputs=inputs, attributes=f"\n{attributes}\n    " if attributes else "",
            output=declared.output.name, used=used,
        ),
        "definition.py": definition(declared),
        "samples.py": SAMPLES.format(name=name),
    }  # fmt: skip


def definition(declared: Declaration) -> str:
    inputs = [f"{each.python_name}: {input_type(each)}" for each in declared.inputs]
    attributes = [f"{each.name}: {KINDS[each.type][1]}" for each in declared.attributes]
    arrays = ["input: Array"] + [f"{each.name}: Array" for each in declared.inputs if each.name != "self"]
    has_self = any(each.name == "self" for each in declared.inputs)
    return DEFINITION.format(
        backward=", ".join(inputs + attributes),
        forward=", ".join(arrays + attributes),
        shape="shape_of(input)" if has_self else "()",
        shape_of="shape_of, " if has_self else "",
        sequence="from collections.abc import Sequence\n\n" if "Sequence" in str(inputs + attributes) else "",
    )


def input_type(parameter: Parameter) -> str:
    return "Array | Sequence[int]" if parameter.name == "self" else "Array"


def native_files(symbol: str, declared: Declaration) -> dict[str, str]:
    names = ", ".join(each.abi_name for each in declared.parameters)
    return {
        "plan.cpp": PLAN.format(
            symbol=symbol, header=declared.header, names=names,
            parameters=", ".join(each.declaration for each in declared.parameters),
        ),
        "computation.h": COMPUTATION_HEADER.format(type=symbol.removeprefix("aclnn")),
        "computation.cpp": COMPUTATION.format(type=symbol.removeprefix("aclnn")),
    }  # fmt: skip


def copied_files(folder: Path, like: str, name: str, symbol: str, header: str) -> dict[str, str]:
    """Returns the files of an operator with the name, the symbol and the header of another."""
    spec = (PYTHON / like / "spec.py").read_text()
    found = re.search(r"aclnn\w+", spec)
    if found is None:
        raise SystemExit(f"{like}: its spec.py has to begin with the symbol; see the others")
    renamed = {found[0]: symbol, found[0].removeprefix("aclnn"): symbol.removeprefix("aclnn"), like: name}
    files = {}
    for path in sorted(folder.glob("*.*")):
        text = re.sub(r"aclnnop/\w+\.h", f"aclnnop/{header}", path.read_text())
        for old, new in renamed.items():
            text = text.replace(old, new)
        files[path.name] = text
    return files


def main() -> int:
    parser = argparse.ArgumentParser(usage="make new-operator NAME=... SYMBOL=aclnn... [LIKE=OPERATOR]")
    parser.add_argument("name", help="the wire name, such as upsample_nearest2d_backward")
    parser.add_argument("symbol", help="CANN's name, such as aclnnUpsampleNearest2dBackward")
    parser.add_argument("like", nargs="?", help="an operator whose files are copied in place of empty stubs")
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", given.name) or not re.fullmatch(r"aclnn[A-Z]\w*", given.symbol):
        parser.error("give NAME=... in lower case with underscores and SYMBOL=aclnn... as CANN names it")
    if given.name != folder_of(given.symbol):
        parser.error(
            f"the NAME of {given.symbol} is {folder_of(given.symbol)}, not {given.name}: the build looks for it"
        )
    if wrong := list(find_wrong_declarations(ROOT / "native")):
        raise SystemExit("\n".join(wrong))
    declared = declaration_of(given.symbol)
    folders = {
        PYTHON / given.name: python_files(given.name, given.symbol, declared),
        NATIVE / given.name: native_files(given.symbol, declared),
    }
    if given.like is not None:
        if not (PYTHON / given.like / "spec.py").is_file():
            parser.error(f"there is no operator {given.like} to copy from in {PYTHON.relative_to(ROOT)}")
        names = given.like, given.name, given.symbol, declared.header
        folders = {folder: copied_files(folder.with_name(given.like), *names) for folder in folders}
    for folder in folders:
        if any(folder.glob("*.*")):
            raise SystemExit(f"{folder.relative_to(ROOT)} exists; remove it or choose another name")
    for folder, files in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
            print(f"wrote {(folder / name).relative_to(ROOT)}")
    print(LEFT.format(name=given.name))
    return 0


SPEC = '''\
"""{symbol}: what the server checks before a device is asked."""

from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.rules import same_dtype
from aclgrad.operators.spec import (
    Arguments,
{used}    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    same_on,
)
from aclgrad.products import Product
from aclgrad.tensors import TensorType

# Every product that has the operator, and the dtypes that it takes there.
_DTYPES = same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32", "float16", "bfloat16"))
_RANKS = (3, 4)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    """What the table cannot say: how inputs and attributes have to fit each other, and what a product gets wrong."""
    yield from same_dtype(arguments, "grad_output")


def _output(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


SPEC = OperatorSpec(
    name="{name}",
    symbol="{symbol}",
    summary="What it does, in one sentence.",
    formula="How each cell of the gradient is computed (PyTorch: the operator that it is there).",
    # An input whose values no device reads says so by unread_on; one with positions has a rule of values.py.
    inputs=(
{inputs}
    ),
    attributes=({attributes}),
    output=OutputSpec("{output}", "The gradient of `self`, with its shape and dtype.", _output),
    check=_check,
    tolerances={{
        "float32": Tolerance(relative=1e-5, absolute=1e-6),
        "float16": Tolerance(relative=1e-3, absolute=1e-4),
        "bfloat16": Tolerance(relative=8e-3, absolute=1e-4),
    }},
)
'''

DEFINITION = '''\
"""The forward function, and its gradient cell by cell in float64."""

{sequence}import numpy as np

from aclgrad.operators.definitions import Array, {shape_of}wide


def backward({backward}) -> Array:
    """Where each cell of grad_output goes. A plain loop, which shares no shortcut with a kernel."""
    gradient = np.zeros({shape}, wide(grad_output))
    return gradient


def forward({forward}) -> Array:
    """The function that this is the gradient of, written in another way; grad_output gives the shape of the result."""
    return np.zeros(grad_output.shape)
'''

SAMPLES = '''\
"""Calls of {name}."""

from collections.abc import Mapping
from typing import Any

from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_leading, draw_sizes


def _case(name: str, input: tuple[int, ...], **attributes: Any) -> Case:
    return case(name, attributes, grad_output=input, input=input)


def _draw(integer: Integer) -> Case:
    return _case("drawn", (*draw_leading(integer), *draw_sizes(integer, 2, 1, 12)))


def _rows(length: int) -> tuple[Case, ...]:
    """Around the lengths of vectors, so that each loop of the kernel meets a remainder."""
    return (_case("rows", (2, 4, length)),)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    raise NotImplementedError(torch.ops.aten)


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={{size: _case("timed", shape) for size, shape in PLANES.items()}},
    pytorch=_pytorch,
    # A plane that the documentation draws.
    picture=_case("picture", (1, 1, 2, 3)),
    # First the one that the demo and the self-test make; then each rank, edge sizes, every attribute, empty tensors.
    cases=(),
)
'''

PLAN = """\
// {symbol}: its checks and its plan.
#include "computation.h"

#include "aclnnop/{header}"
#include "plan/checks.h"
#include "plan/executor.h"

namespace acl_host {{
namespace {{

// The checks in CANN's order, with CANN's codes.
Plan MakePlan({parameters}) {{
  const Product& product = CurrentProduct();
  CheckProduct(product, {{"910B", "910_93"}});
  Plan plan;
  return plan;
}}

}}  // namespace
}}  // namespace acl_host

aclnnStatus {symbol}GetWorkspaceSize({parameters}, uint64_t* workspaceSize, aclOpExecutor** executor) {{
  return acl_host::PlanOperator(__func__, workspaceSize, executor, [&] {{ return acl_host::MakePlan({names}); }});
}}

aclnnStatus {symbol}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, const aclrtStream stream) {{
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}}
"""

COMPUTATION_HEADER = """\
#pragma once

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {{

template <VectorLevel>
struct {type} {{
  static void Run(aclDataType type, const Launch& launch);
}};

}}  // namespace acl_host
"""

COMPUTATION = """\
// How the gradient is computed: once for each vector level, the same for any number of threads.
#include "computation.h"

namespace acl_host {{

template <>
void {type}<VECTOR_LEVEL>::Run(aclDataType, const Launch&) {{}}

}}  // namespace acl_host
"""

LEFT = """
Left to do:
 1. client/src/aclgrad/operators/{name}/spec.py: products, dtypes, ranks, bounds, _check, and in its docstring what
    devices get wrong.
 2. client/src/aclgrad/operators/{name}/definition.py: backward and forward, from the documentation.
 3. client/src/aclgrad/operators/{name}/samples.py: the cases, legal values if not any will do, PyTorch's call.
 4. native/host/operators/{name}/: CANN's checks in its order, the plan, the computation; without computation.* if one
    of native/host/families does it.
 5. make format generate: the catalogue, the clients' methods, aclgrad.reference, README; it says what is missing.
 6. CHANGELOG.md: a line.
 7. tests/abi/checks/{name}.py, only for the order and the codes of CANN's checks.
Then make demo and make test run the new cases."""

if __name__ == "__main__":
    sys.exit(main())
