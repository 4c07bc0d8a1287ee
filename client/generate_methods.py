"""Writes `src/aclgrad/_operator_methods.py` from the operator table; with --check only says whether it is current.

The file is generated so that editors and type checkers see real methods, and it is in version control so that
installing the client needs no generator.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import AttributeKind, AttributeSpec, InputSpec, OperatorSpec

TARGET = Path(__file__).parent / "src/aclgrad/_operator_methods.py"
WIDTH = 120

HEADER = '''\
"""One method for each operator. Generated from the operator table by `make generate`; do not edit."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from aclgrad._calls import Input
from aclgrad.operators.attributes import AttributeLike

Result = TypeVar("Result")
Ints = Sequence[int] | np.ndarray[Any, Any]


class OperatorMethods(ABC, Generic[Result]):
    """The operators as methods; `timeout_s` overrides the client's time limit for one call.

    What a method returns is the gradient, an awaitable of it, or its place in a batch, as the class says that has them.
    """

    @abstractmethod
    def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Calls an operator by its wire names."""
'''

PYTHON_TYPES = {
    AttributeKind.BOOL: "bool",
    AttributeKind.INT: "int",
    AttributeKind.DOUBLE: "float",
    AttributeKind.INTS: "Ints",
}


def module() -> str:
    text = HEADER + "".join(map(method, OPERATORS.values()))
    formatter = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(formatter, input=text, text=True, capture_output=True, check=True).stdout


def method(spec: OperatorSpec) -> str:
    inputs = [f"{each.python_name}: {input_type(each)}" for each in spec.inputs]
    attributes = [attribute_parameter(each) for each in spec.attributes]
    parameters = ", ".join(["self", *inputs, *attributes, "*", "timeout_s: float | None = None"])
    sent = ", ".join(f'"{each.name}": {each.python_name}' for each in spec.inputs)
    given = ", ".join(f'"{each.name}": {each.name}' for each in spec.attributes)
    body = f'''
def {spec.name}({parameters}) -> Result:
    """{docstring(spec)}
    """
    inputs = {{{sent}}}
    return self.execute("{spec.name}", inputs, {{{given}}}, timeout_s=timeout_s)
'''
    return textwrap.indent(body, "    ")


def input_type(spec: InputSpec) -> str:
    return "ArrayLike" if spec.unread_on is None else "ArrayLike | tuple[int, ...]"


def attribute_parameter(spec: AttributeSpec) -> str:
    default = "" if spec.default is None else f" = {spec.default!r}"
    alone = "int | " if 1 in spec.lengths else ""
    return f"{spec.name}: {alone}{PYTHON_TYPES[spec.kind]}{default}"


def docstring(spec: OperatorSpec) -> str:
    def paragraph(text: str, indent: str = "    ") -> str:
        return textwrap.fill(text, WIDTH - 4, initial_indent=indent, subsequent_indent=indent)

    def entry(name: str, summary: str) -> str:
        summary = summary.replace("`self`", "`input`")
        return textwrap.fill(f"{name}: {summary}", WIDTH - 4, initial_indent=" " * 8, subsequent_indent=" " * 12)

    arguments = [entry(each.python_name, input_summary(each)) for each in spec.inputs]
    arguments += [entry(each.name, each.summary) for each in spec.attributes]
    return "\n".join(
        [
            spec.summary,
            "",
            paragraph(spec.formula),
            "",
            "    Args:",
            *arguments,
            "",
            f"    Returns: {spec.output.rule.replace('`self`', '`input`')}",
            "",
            "    Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.",
        ]
    )


def input_summary(spec: InputSpec) -> str:
    dtypes = sorted({dtype for each in spec.dtypes.values() for dtype in each})
    shape = (
        ""
        if spec.unread_on is None
        else " Only the shape is sent, unless the server needs the values; a tuple of sizes stands for it, and its "
        "dtype is then that of the arrays."
    )
    return f"{spec.summary} {', '.join(dtypes)} (fewer on some products).{shape}"


def main() -> int:
    text = module()
    if sys.argv[1:] == ["--check"]:
        current = TARGET.read_text() == text
        if not current:
            print(f"{TARGET.name} does not match the operator table; run `make generate`", file=sys.stderr)
        return 0 if current else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
