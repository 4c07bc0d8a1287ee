"""Writes the stubs of a new operator from its declaration in native/include/aclnnop, and prints what is left to do.

The stubs are made from `operator_stubs`, with a small kernel that compiles; the steps are those of ARCHITECTURE.md.

Usage: make new-operator SYMBOL=aclnnUpsampleNearest2dBackward [LIKE=OPERATOR]

With LIKE, the stubs are copies of another operator's files under the new names, for example one of the same family.
"""

import argparse
import re
from pathlib import Path
from string import Template
from typing import NamedTuple

from native.operator_table import (
    find_operators,
    find_plans,
    find_wrong_declarations,
    folder_of,
    parameters_of,
    snake_case,
)

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "client/src/aclgrad/operators"
NATIVE = ROOT / "native/host/operators"
STUBS = Path(__file__).parent / "operator_stubs"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
EXAMPLE = "upsample_nearest2d_backward"
"""The operator whose name stands in the steps."""
KINDS = {
    "bool": ("BOOL", "bool"),
    "int": ("INT", "int"),
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
"""An attribute's kind in the table and its Python type, by its C type: those that `ArgumentReader` passes on."""


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

    def differentiated(self, output: Parameter) -> str:
        """The input that an output is the gradient of: the one that it is named after, which may not be given."""
        names = [each.name for each in self.inputs]
        stem = re.sub(r"^grad_|_grad$|^d(?=[a-z])", "", output.name)
        if stem in names or (len(self.outputs) > 1 and stem not in ("input", "out")):
            return stem
        return next((each for each in ("self", "input") if each in names), "self")


def declaration_of(symbol: str, header: Path) -> Declaration:
    """Reads phase 1: a tensor that is const is an input, any other an output; an array of bools says what is wanted.

    In headers that CANN generates outputs are const too, and named so.
    """
    parameters = [
        Parameter(kind.startswith("const "), kind.removeprefix("const ").rstrip("* "), name)
        for kind, name in parameters_of(symbol, header)
    ]
    tensors = [each for each in parameters if each.type == "aclTensor"]
    attributes = [each for each in parameters if each.type not in ("aclTensor", "aclBoolArray")]
    for each in attributes:
        if each.type not in KINDS:
            places = "KINDS in tools/generate/new_operator.py and to ArgumentReader in native/runtime/arguments.h"
            problem = f"{each.abi_name} has the type {each.type}; known are {', '.join(KINDS)}"
            raise SystemExit(f"{header.name}: {problem}; add the type to {places}")
    outputs = [each for each in tensors if not each.is_const]
    outputs = outputs or [each for each in tensors if each.abi_name == "out" or each.abi_name.endswith("Out")]
    outputs = outputs or [each for each in tensors[-1:] if each.abi_name.startswith("grad")]
    if not outputs:
        raise SystemExit(f"{header.name}: {symbol} has no output, an aclTensor* that is not const or is named ...Out")
    return Declaration(symbol, [each for each in tensors if each not in outputs], attributes, outputs)


def stubs(declared: Declaration) -> dict[Path, str]:
    """Returns files that build; each text that only the author knows begins with UNWRITTEN."""
    fields = {
        "name": declared.name,
        "symbol": declared.symbol,
        "plain": declared.symbol.removeprefix("aclnn"),
        **python_fields(declared),
        **native_fields(declared),
    }
    files = {}
    for stub in sorted(STUBS.glob("*.in")):
        folder = PYTHON if stub.stem.endswith(".py") else NATIVE
        files[folder / declared.name / stub.stem] = Template(stub.read_text()).substitute(fields)
    return files


def python_fields(declared: Declaration) -> dict[str, str]:
    inputs, attributes, outputs = declared.inputs, declared.attributes, declared.outputs
    names = [each.name for each in inputs]
    of = {each.name: declared.differentiated(each) for each in outputs}
    parameters = [f"{each.python_name}: Array" for each in inputs if not each.is_optional]
    parameters += [f"{each.name}: {KINDS[each.type][1]}" for each in attributes]
    parameters += [f"{each.python_name}: Array | None = None" for each in inputs if each.is_optional]
    further = [f"{each}: Array | None = None" for each in of.values() if each not in (*names, "self", "input")]
    infer, rules = "", []
    for output, source in of.items():
        known = source in names
        body = f'return arguments.inputs["{source}"]' if known else f'raise NotImplementedError("UNWRITTEN: {output}")'
        infer += f"def _{output}(arguments: Arguments) -> TensorType:\n    {body}\n\n\n"
        rule = (
            f"The gradient of `{source}`, with its shape and dtype." if known else "UNWRITTEN: what it is, its shape."
        )
        given = "" if source == "self" else f', of="{source}"'
        rules.append(f'        OutputSpec("{output}", "{rule}", _{output}{given}),\n')
    return {
        "inputs": "".join(
            f'        InputSpec("{each.name}", "UNWRITTEN: what it is, and its shape.", _DTYPES, _RANKS'
            f"{', is_optional=True' if each.is_optional else ''}),\n"
            for each in inputs
        ),
        "attributes": "".join(
            f'        AttributeSpec("{each.name}", "UNWRITTEN: what it does.", AttributeKind.{KINDS[each.type][0]}),\n'
            for each in attributes
        ),
        "attribute_classes": "AttributeKind, AttributeSpec, " if attributes else "",
        "same": ", ".join(f'"{each.name}"' for each in inputs if not each.is_optional),
        "outputs": "".join(rules),
        "infer": infer,
        "sequence": "from collections.abc import Sequence\n\n" if "Sequence" in str(parameters) else "",
        "backward": ", ".join(parameters),
        "forward": ", ".join(dict.fromkeys(["input: Array", *parameters, *further])),
        "returns": "Array" if len(outputs) == 1 else f"tuple[{', '.join(['Array'] * len(outputs))}]",
        "shapes": ", ".join(f"{each.name}=shape" for each in inputs if not each.is_optional),
    }


def native_fields(declared: Declaration) -> dict[str, str]:
    """Returns what stands in the plan; its variables are named as the fields of the operator's arguments."""
    given = [each for each in declared.inputs if not each.is_optional]
    arrays = [each for each in declared.attributes if each.type == "aclIntArray"]
    read = [("Argument", each) for each in (*given, *declared.outputs)] + [
        ("IntArrayArgument", each) for each in arrays
    ]
    inputs, outputs = ([snake_case(each.abi_name) for each in tensors] for tensors in (given, declared.outputs))
    return {
        "includes": '#include "plan/int_arrays.h"\n' if arrays else "",
        "arguments": "\n".join(
            f'  const {kind} {variable}{{"{each.abi_name}", arguments.{variable}}};'
            for kind, each in read
            for variable in [snake_case(each.abi_name)]
        ),
        "first": inputs[0],
        "out": outputs[0],
        "operands": "".join(
            f"  plan.Add{kind}({each}.tensor);\n"
            for kind, names in (("Input", inputs), ("Output", outputs))
            for each in names
        ),
        "tensors": ", ".join([*inputs, *outputs]),
        "counts": ", ".join(f"ElementCount({each}.tensor.view_dims)" for each in outputs),
    }


def steps(name: str) -> str:
    """Returns what ARCHITECTURE.md says of a new operator after the stubs are there."""
    section = ARCHITECTURE.read_text().partition("## Adding an operator\n")[2].partition("\n## ")[0]
    return section[section.index("\n3. ") :].replace(EXAMPLE, name)


def copies(declared: Declaration, like: str, symbols: dict[str, str]) -> dict[Path, str]:
    """Returns the files of another operator, with its names replaced in one pass: one name may contain the other."""
    if like not in symbols:
        raise SystemExit(f"there is no operator {like} to copy; there are {', '.join(sorted(symbols))}")
    plain, copied = (each.removeprefix("aclnn") for each in (declared.symbol, symbols[like]))
    renamed = {symbols[like]: declared.symbol, copied: plain, like: declared.name}
    names = re.compile(rf"(?:\b|(?<=\bPlan))({'|'.join(renamed)})(?=\b|(?:Arguments|Sizes)\b)")

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
    print(steps(declared.name).rstrip())


if __name__ == "__main__":
    main()
