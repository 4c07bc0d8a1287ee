"""Derives the build's lists from include/. `python operator_table.py FOLDER` writes

* FOLDER/operator_table.h: the operators of include/aclnnop, for the runtime's rows and the host library's settings;
* FOLDER/exports.map: the exports of libacl_host.so, which are exactly the functions that the headers declare.

It fails, with a sentence for each problem, if a header does not declare its operators as the build expects, or if a
declared operator is not implemented or an implemented one is not declared.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

NATIVE = Path(__file__).parent
PHASE_1 = "GetWorkspaceSize"
_DECLARED = re.compile(r"^(?:ACL_FUNC_VISIBILITY|ACLNN_API)\s[^;(]*?(\w+)\(", re.MULTILINE)
_FUNCTION = re.compile(r"\b(aclnn\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def functions_of(header: Path) -> list[str]:
    """Returns the functions that a header declares."""
    return _DECLARED.findall(header.read_text())


def snake_case(name: str) -> str:
    """Returns one of CANN's names in lower case: pool2d_loss for Pool2dLoss and Pool2DLoss, nll_loss for NLLLoss."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", name).lower()


def folder_of(symbol: str) -> str:
    """Returns the name of an operator's folder: adaptive_avg_pool2d for aclnnAdaptiveAvgPool2d."""
    return snake_case(symbol.removeprefix("aclnn"))


def find_operators(native: Path) -> dict[str, Path]:
    """Returns the header of each operator, by the name of its second phase."""
    operators: dict[str, Path] = {}
    for header in sorted(native.glob("include/aclnnop/*.h")):
        for name in functions_of(header):
            if not name.endswith(PHASE_1):
                operators[name] = header
    return operators


def find_wrong_declarations(native: Path) -> Iterator[str]:
    """Yields what the headers of operators declare twice, by halves, or in a way that nothing would export."""
    first: dict[str, Path] = {}
    for header in sorted(native.glob("include/aclnnop/*.h")):
        declared = functions_of(header)
        if not declared:
            yield f"{header} declares no operator: begin the line of each function with ACLNN_API, or remove it"
        for name in _FUNCTION.findall(_COMMENT.sub("", header.read_text())):
            if name not in declared:
                yield f"{header} declares {name} without ACLNN_API: begin the line of its declaration with it"
        for name in declared:
            pair = name.removesuffix(PHASE_1) if name.endswith(PHASE_1) else name + PHASE_1
            if pair not in declared:
                yield f"{header} declares {name} without {pair}: declare both there"
            if name in first:
                yield f"{header} declares {name}, as {first[name]} does: declare it in one of them"
            first.setdefault(name, header)


def find_faults(native: Path, operators: dict[str, Path]) -> Iterator[str]:
    """Yields what is missing, and where it belongs."""
    yield from find_wrong_declarations(native)
    for symbol, header in operators.items():
        plan = native / "host/operators" / folder_of(symbol) / "plan.cpp"
        if not plan.exists():
            yield f"{header} declares {symbol}, which has no kernel: write its checks and plan in {plan}"
    known = {folder_of(symbol) for symbol in operators}
    for folder in sorted(native.glob("host/operators/*/")):
        if folder.name not in known:
            yield f"{folder} implements no operator: declare its functions in a header of {native / 'include/aclnnop'}"


def write(path: Path, text: str) -> None:
    """Writes a file only if its content changes, so that nothing is compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(native: Path, target: Path) -> str | None:
    operators = find_operators(native)
    if faults := list(find_faults(native, operators)):
        return "\n".join(faults)
    headers = sorted({header.name for header in operators.values()})
    includes = "".join(f'#include "aclnnop/{name}"\n' for name in headers)
    rows = "".join(f" \\\n  ROW({symbol})" for symbol in sorted(operators))
    write(
        target / "operator_table.h",
        f"// Written by operator_table.py.\n#pragma once\n\n{includes}\n#define ACLNN_OPERATORS(ROW){rows}\n",
    )
    names = [name for header in sorted(native.glob("include/**/*.h")) for name in functions_of(header)]
    listed = "".join(f"    {name};\n" for name in names)
    write(target / "exports.map", f"{{\n  global:\n{listed}  local:\n    *;\n}};\n")
    return None


if __name__ == "__main__":
    sys.exit(main(NATIVE, Path(sys.argv[1])))
