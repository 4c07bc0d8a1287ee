"""Writes the stubs of a new operator from its declaration in native/include/aclnnop, and prints the remaining steps.

Usage: make new-operator SYMBOL=aclnnUpsampleNearest2dBackward [LIKE=OPERATOR]

With LIKE, the stubs are copies of another operator's files under the new names, for example one of the same family.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "native"))

from operator_table import (  # noqa: E402 - the build's rules
    find_operators,
    find_plans,
    find_wrong_declarations,
    folder_of,
    snake_case,
)

PYTHON = ROOT / "client/src/aclgrad/operators"
NATIVE = ROOT / "native/host/operators"
KINDS = {
    "bool": ("BOOL", "bool"),
    "int8_t": ("INT", "int"),
    "int32_t": ("INT", "int"),
    "int64_t": ("INT", "int"),
    "float": ("DOUBLE", "float"),
    "double": ("DOUBLE", "float"),
    "uint64_t": ("INT", "int"),
    "aclIntArray": ("INTS", "Sequence[int]"),
    "aclScalar": ("DOUBLE", "float"),
    "char": ("TEXT", "str"),
}
"""An attribute's kind in the table and its Python type, by its C type."""


class Parameter(NamedTuple):
    """One parameter of phase 1."""

    is_const: bool
    type: str
    abi_name: str

    @property
    def name(self) -> str:
        """The wire name: CANN's in snake case, without what it says of the parameter's use.

        The gradient has the same name for all operators.
        """
        name = snake_case(self.abi_name)
        if name in ("grad_out", "y_grad"):
            return "grad_output"
        return name.removesuffix("_out").removesuffix("_optional") if self.type == "aclTensor" else name

    @property
    def python_name(self) -> str:
        return "input" if self.name == "self" else self.name

    @property
    def is_optional(self) -> bool:
        return self.abi_name.endswith("Optional")


class Declaration(NamedTuple):
    """Phase 1 of an operator, from its header."""

    symbol: str
    inputs: list[Parameter]
    attributes: list[Parameter]
    outputs: list[Parameter]

    @property
    def name(self) -> str:
        return folder_of(self.symbol)


def declaration_of(symbol: str, header: Path) -> Declaration:
    """Reads phase 1: a tensor that is const is an input, any other an output; an array of bools says what is wanted.

    In headers that CANN generates outputs are const too, and named so.
    """
    found = re.search(rf"\b{symbol}GetWorkspaceSize\(([^)]*)\)", header.read_text())
    assert found is not None
    text = " ".join(found[1].split())
    *given, _, _ = re.findall(r"(const\s+)?(\w+)\s*\**\s*(\w+)(?:,|$)", text)
    parameters = [Parameter(bool(const), kind, name) for const, kind, name in given]
    tensors = [each for each in parameters if each.type == "aclTensor"]
    attributes = [each for each in parameters if each.type not in ("aclTensor", "aclBoolArray")]
    for each in attributes:
        if each.type not in KINDS:
            raise SystemExit(f"{header.name}: {each.abi_name} has the type {each.type}; known are {', '.join(KINDS)}")
    outputs = [each for each in tensors if not each.is_const]
    outputs = outputs or [each for each in tensors if each.abi_name == "out" or each.abi_name.endswith("Out")]
    outputs = outputs or [each for each in tensors[-1:] if each.abi_name.startswith("grad")]
    if not outputs:
        raise SystemExit(f"{header.name}: {symbol} has no output, an aclTensor* that is not const or is named ...Out")
    return Declaration(symbol, [each for each in tensors if each not in outputs], attributes, outputs)


def stubs(declared: Declaration) -> dict[Path, str]:
    """Returns files that build; each says where a call fails until it is written."""
    inputs, attributes = declared.inputs, declared.attributes
    has_self = any(each.name == "self" for each in inputs)
    rule = "The gradient of `self`, with its shape and dtype." if has_self else "What it is, and its shape."
    parameters = [f"{each.python_name}: Array" for each in inputs if not each.is_optional]
    parameters += [f"{each.name}: {KINDS[each.type][1]}" for each in attributes]
    parameters += [f"{each.python_name}: Array | None = None" for each in inputs if each.is_optional]
    fields = {
        "name": declared.name,
        "symbol": declared.symbol,
        "plain": declared.symbol.removeprefix("aclnn"),
        "inputs": "".join(
            f'        InputSpec("{each.name}", "What it is, and its shape.", _DTYPES, _RANKS'
            f"{', is_optional=True' if each.is_optional else ''}),\n"
            for each in inputs
        ),
        "attributes": "".join(
            f'        AttributeSpec("{each.name}", "What it does.", AttributeKind.{KINDS[each.type][0]}),\n'
            for each in attributes
        ),
        "attribute_classes": "AttributeKind, AttributeSpec, " if attributes else "",
        "same": ", ".join(f'"{each.name}"' for each in inputs),
        "outputs": "".join(f'        OutputSpec("{each.name}", "{rule}", _output),\n' for each in declared.outputs),
        "inferred": 'return arguments.inputs["self"]'
        if has_self
        else f'raise NotImplementedError("{declared.name}: spec.py does not say the type of the output")',
        "sequence": "from collections.abc import Sequence\n\n" if "Sequence" in str(parameters) else "",
        "backward": ", ".join(parameters),
        "forward": ", ".join(dict.fromkeys(["input: Array", *parameters])),
        "shapes": ", ".join(f"{each.name}=shape" for each in inputs),
    }
    python = {"__init__.py": INIT, "spec.py": SPEC, "definition.py": DEFINITION, "samples.py": SAMPLES}
    files = {PYTHON / declared.name / name: text for name, text in python.items()}
    files[NATIVE / declared.name / "plan.cpp"] = PLAN
    return {path: text.format(**fields) for path, text in files.items()}


def copies(declared: Declaration, like: str, symbols: dict[str, str]) -> dict[Path, str]:
    """Returns the files of another operator, with its names replaced in one pass: one name may contain the other."""
    if like not in symbols:
        raise SystemExit(f"there is no operator {like} to copy; there are {', '.join(sorted(symbols))}")
    plain, copied = (each.removeprefix("aclnn") for each in (declared.symbol, symbols[like]))
    renamed = {symbols[like]: declared.symbol, copied: plain, like: declared.name}
    names = re.compile(rf"(?:\b|(?<=\bPlan))({'|'.join(renamed)})(?=\b|Arguments\b)")

    def copy(path: Path) -> str:
        return names.sub(lambda found: renamed[found[0]], path.read_text())

    folders = ((folder / like, folder / declared.name) for folder in (PYTHON, NATIVE))
    return {new / path.name: copy(path) for old, new in folders for path in sorted(old.glob("*.*"))}


def main() -> None:
    parser = argparse.ArgumentParser(usage="make new-operator SYMBOL=aclnn... [LIKE=OPERATOR]")
    parser.add_argument("symbol", help="CANN's name, such as aclnnUpsampleNearest2dBackward")
    parser.add_argument("like", nargs="?", help="an operator whose files are copied in place of empty stubs")
    given = parser.parse_args()
    if wrong := list(find_wrong_declarations(ROOT / "native")):
        raise SystemExit("\n".join(wrong))
    headers = find_operators(ROOT / "native")
    if given.symbol not in headers:
        raise SystemExit(
            f"no header in native/include/aclnnop declares {given.symbol or 'SYMBOL=, which is empty'}; "
            "first add the header with both functions, under the file name that CANN gives it"
        )
    declared = declaration_of(given.symbol, headers[given.symbol])
    symbols = {folder_of(each): each for each in headers if each != given.symbol}
    files = stubs(declared) if given.like is None else copies(declared, given.like, symbols)
    for folder in sorted({path.parent for path in files}):
        if any(folder.glob("*.*")):
            raise SystemExit(f"{folder.relative_to(ROOT)} exists; remove it first")
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    if not any(path.is_relative_to(NATIVE) for path in files):
        table = find_plans(ROOT / "native")[symbols[given.like]].relative_to(ROOT)
        print(f"add a row to {table}, which has that of {given.like}")
    print(LEFT.format(name=declared.name))


INIT = '"""{symbol}: what it computes."""\n'

SPEC = '''\
"""{symbol}: what the server checks before a device is asked."""

from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.rules import same_dtype
from aclgrad.operators.spec import Arguments, {attribute_classes}InputSpec, OperatorSpec, OutputSpec, Tolerance, same_on
from aclgrad.products import Product
from aclgrad.tensors import TensorType

# Every product that has the operator, and the dtypes that it takes there.
_DTYPES = same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32", "float16", "bfloat16"))
_RANKS = (3, 4)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    """What the table cannot say: how inputs and attributes have to fit each other, and what a product gets wrong."""
    yield from same_dtype(arguments, {same})


def _output(arguments: Arguments) -> TensorType:
    {inferred}


SPEC = OperatorSpec(
    name="{name}",
    symbol="{symbol}",
    summary="What it does, in one sentence.",
    formula="How each cell of the gradient is computed (PyTorch: the operator that it is there).",
    # An input whose values no device reads says so by unread_on; one with positions has a rule of values.py.
    inputs=(
{inputs}    ),
    attributes=(
{attributes}    ),
    outputs=(
{outputs}    ),
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

{sequence}from aclgrad.operators.definitions import Array


def backward({backward}) -> Array:
    """Where each cell of grad_output goes. A plain loop, which shares no shortcut with a kernel."""
    raise NotImplementedError("{name}: definition.py lacks the gradient")


def forward({forward}) -> Array:
    """The function that this is the gradient of, written in another way; grad_output gives the shape of the result."""
    raise NotImplementedError("{name}: definition.py lacks the forward function")
'''

SAMPLES = '''\
"""Calls of {name}."""

from collections.abc import Mapping
from typing import Any

from aclgrad.operators.samples import PLANES, Case, Samples, case, draw_sizes


def _case(name: str, shape: tuple[int, ...], **attributes: Any) -> Case:
    return case(name, attributes, {shapes})


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    raise NotImplementedError("{name}: samples.py lacks PyTorch's call")


SAMPLES = Samples(
    draw=lambda integer: _case("drawn", draw_sizes(integer, 4, 1, 12)),
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
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {{

// CANN's checks in its order, with its codes; then the plan, and what computes it.
Plan Plan{plain}(const {plain}Arguments& /*arguments*/) {{
  FailInvalid("native/host/operators/{name}/plan.cpp has no plan yet");
}}

}}  // namespace acl_host
"""

LEFT = """
Left to do:
 1. client/src/aclgrad/operators/{name}/spec.py: products, dtypes, ranks, bounds, _check, and in its docstring what
    devices get wrong.
 2. client/src/aclgrad/operators/{name}/definition.py: backward and forward, from the documentation.
 3. client/src/aclgrad/operators/{name}/samples.py: the cases, legal values if not any will do, rows if the kernel uses
    vectors, PyTorch's call.
 4. native/host/operators/{name}/plan.cpp: CANN's checks in its order, and the plan. Computations are in
    native/host/families, or beside it in computation.cpp, which is compiled once for each vector level.
 5. client/src/aclgrad/msprobe/calls.py: PyTorch's call with this gradient, for `aclgrad check --msprobe`.
 6. make format generate: the catalogue, the clients' methods, aclgrad.reference, README; it says what is missing.
 7. CHANGELOG.md: a line.
 8. tests/abi/checks/{name}.py, only for the order and the codes of CANN's checks.
Then make demo and make test run the new cases."""

if __name__ == "__main__":
    main()
