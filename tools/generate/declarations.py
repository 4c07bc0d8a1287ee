"""What a header of native/include/aclnnop declares of an operator. Those in CANN's form get ours."""

import re
from pathlib import Path
from string import Template
from typing import NamedTuple

from native.operator_table import (
    PHASE_1,
    find_wrong_declarations,
    folder_of,
    functions_of,
    parameters_of,
    snake_case,
    without_comments,
)

HEADER = Path(__file__).parent / "operator_stubs/header.h.in"
KINDS = {
    "bool": ("BOOL", "bool"),
    "int": ("INT", "int"),
    "int8_t": ("INT", "int"),
    "int32_t": ("INT", "int"),
    "int64_t": ("INT", "int"),
    "uint64_t": ("INT", "int"),
    "float": ("DOUBLE", "float"),
    "double": ("DOUBLE", "float"),
    "aclDataType": ("DATA_TYPE", "str"),
    "aclScalar": ("DOUBLE", "float"),
    "aclIntArray": ("INTS", "Sequence[int]"),
    "aclBoolArray": ("BOOLS", "Sequence[bool]"),
    "char": ("TEXT", "str"),
}
"""An attribute's kind in the table and its Python type, by its C type: those that `ArgumentReader` passes on."""
NEEDS = {
    "aclTensorList": "an InputSpec that is a list, as cat has, instead of a stub",
    "aclScalarList": "a list of numbers: a member of AttributeKind, a value on the wire, and ArgumentReader::Next",
    "aclFloatArray": "a list of numbers: a member of AttributeKind, a value on the wire, and ArgumentReader::Next",
}
"""What is missing for types without stubs, after which a row of KINDS is enough."""
OTHER_NEEDS = "a member of AttributeKind unless one fits, and ArgumentReader::Next in native/runtime/arguments.h"


class Parameter(NamedTuple):
    """One parameter of phase 1."""

    c_type: str
    abi_name: str

    @property
    def type(self) -> str:
        return self.c_type.removeprefix("const ").rstrip("* ")

    @property
    def name(self) -> str:
        """The wire name: CANN's in snake case, without what it says of the parameter's use.

        The gradient has the same name for all operators.
        """
        name = snake_case(self.abi_name)
        if name in ("grad_out", "y_grad"):
            return "grad_output"
        if self.type == "aclTensor":
            name = name.removesuffix("_out")
        return name.removesuffix("_optional") if self.is_optional else name

    @property
    def python_name(self) -> str:
        return "input" if self.name == "self" else self.name

    @property
    def is_optional(self) -> bool:
        """Whether it may be null; a number or a bool cannot be, whatever its name says."""
        return self.abi_name.endswith("Optional") and self.c_type.endswith("*")

    @property
    def is_mask(self) -> bool:
        """Whether it says which outputs are wanted; the server makes it of the request."""
        return self.type == "aclBoolArray" and self.abi_name.lower().endswith("mask")


class Declaration(NamedTuple):
    """Phase 1 of an operator, from its header."""

    symbol: str
    inputs: list[Parameter]
    attributes: list[Parameter]
    outputs: list[Parameter]

    @property
    def name(self) -> str:
        return folder_of(self.symbol)

    @property
    def is_value(self) -> bool:
        """Whether it returns values of a function; CANN's names of gradients say so."""
        return re.search("Backward|Grad(?![a-z])", self.symbol) is None

    def differentiated(self, output: Parameter) -> str | None:
        """The input that an output is the gradient of: the one that it is named after, which may not be given.

        None if the names do not say it.
        """
        names = [each.name for each in self.inputs]
        stem = re.sub(r"^grad_|_grad$|^d(?=[a-z])", "", output.name)
        if stem in names or (len(self.outputs) > 1 and stem not in ("input", "out")):
            return stem
        return next((each for each in ("self", "input") if each in names), None)


def declaration_of(symbol: str, header: Path) -> Declaration:
    """Reads phase 1: a tensor that is const is an input, any other an output.

    In headers that CANN generates outputs are const too, and named so.
    """
    parameters = [Parameter(kind, name) for kind, name in parameters_of(symbol, header)]
    tensors = [each for each in parameters if each.type == "aclTensor"]
    attributes = [each for each in parameters if each.type != "aclTensor" and not each.is_mask]
    for each in attributes:
        if each.type not in KINDS:
            needed = NEEDS.get(each.type, OTHER_NEEDS)
            problem = f"{each.abi_name} has the type {each.type}, for which there are no stubs; it needs {needed}"
            raise SystemExit(f"{header.name}: {problem}; then add the type to KINDS in tools/generate/declarations.py")
    outputs = [each for each in tensors if not each.c_type.startswith("const ")]
    outputs = outputs or [each for each in tensors if each.abi_name == "out" or each.abi_name.endswith("Out")]
    outputs = outputs or [each for each in tensors[-1:] if each.abi_name.startswith("grad")]
    if not outputs:
        raise SystemExit(f"{header.name}: {symbol} has no output, an aclTensor* that is not const or is named ...Out")
    inputs = [each for each in tensors if each not in outputs]
    if all(each.is_optional for each in inputs):
        needed = "a const aclTensor* beside the output that is not named ...Optional"
        raise SystemExit(f"{header.name}: {symbol} has no required input, {needed}")
    return Declaration(symbol, inputs, attributes, outputs)


def completed_header(native: Path, symbol: str) -> tuple[Path, str] | None:
    """Returns a header of another form and its text in ours, None if the operator's header needs none.

    What people paste may be the declaration of phase 1 alone, without ACLNN_API, semicolon and second phase, or a whole
    file of CANN, which includes others that are not here.
    """
    wrong = list(find_wrong_declarations(native))
    headers = sorted(native.glob("include/aclnnop/*.h"))
    for header in headers:
        text = without_comments(header.read_text())
        symbols = re.findall(rf"\b(aclnn\w+){PHASE_1}\s*\(", text)
        is_ours = "#pragma once\n" in text and not any(each.startswith(f"{header} ") for each in wrong)
        if symbol in symbols and not is_ours:
            for each, other in ((each, other) for each in symbols for other in headers if other != header):
                if each in functions_of(other):
                    raise SystemExit(f"{header} declares {each}, as {other} does: declare it in one of them")
            functions = "\n".join(_both_phases(each, header, text) for each in symbols)
            return header, Template(HEADER.read_text()).substitute(functions=functions)
    return None


def _both_phases(symbol: str, header: Path, text: str) -> str:
    found = re.search(rf"\b{symbol}{PHASE_1}\s*\(([^()]*)\)", text)
    if found is None:
        raise SystemExit(f"{header.name}: the parameters of {symbol}{PHASE_1} do not end; add the ) behind them")
    parameters = [" ".join(each.split()) for each in found[1].split(",")]
    names = [re.sub(r".*\W", "", each) for each in parameters]
    if names[-2:] != ["workspaceSize", "executor"]:
        last = "uint64_t* workspaceSize, aclOpExecutor** executor"
        raise SystemExit(f"{header.name}: {symbol}{PHASE_1} has to end with {last}; add them as CANN declares them")
    width = max(map(len, names))
    told = "".join(f"// {name:{width}}  UNWRITTEN: what it is\n" for name in names[:-2])
    return f"""\
{told}ACLNN_API aclnnStatus {symbol}{PHASE_1}({", ".join(parameters)});
ACLNN_API aclnnStatus {symbol}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
"""
