"""Derives what follows from include/. `python operator_table.py FOLDER` writes

* FOLDER/operator_table.h: the operators of include/aclnnop, for the runtime's rows and the host library's settings;
* FOLDER/operator_plans.h: the arguments of each operator, and the function that plans it;
* FOLDER/api.h: the functions of host/api, which do what those of the ABI say, and throw;
* FOLDER/entry_points.cpp: the functions of the ABI that call all these, and return codes;
* FOLDER/exports.map: the exports of both libraries, which are exactly the functions that the headers declare;
* FOLDER/abi_functions.h: those functions, each with the folder of its header and what checks it in libacl_strict.so.

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
_VARIADIC = re.compile(r"^ACL_FUNC_VISIBILITY\s[^;(]*?(\w+)\([^;]*\.\.\.\);", re.MULTILINE)
_CHECKED = re.compile(r"^[\w *]+\bchecked::(\w+)\(", re.MULTILINE)
_FUNCTION = re.compile(r"\b(aclnn\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(r"(.+?)(\w+)")
_PLAN = re.compile(r"^Plan Plan(\w+)\(", re.MULTILINE)
_API = re.compile(r"^void api::(\w+)\(", re.MULTILINE)
_ENTRY_POINT = """
{result} {name}({parameters}) {{
  return acl_host::{guard}(__func__, [&] {{ acl_host::api::{name}({arguments}); }});
}}
"""
_GUARDS = {"aclError": "GuardRuntime", "aclnnStatus": "GuardOperator"}
_PHASES = """
aclnnStatus {symbol}GetWorkspaceSize({parameters}) {{
  return acl_host::PlanOperator(__func__, {first}, workspaceSize, executor,
                                [&] {{ return acl_host::Plan{name}({{{arguments}}}); }});
}}

aclnnStatus {symbol}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {{
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}}
"""


def without_comments(text: str) -> str:
    """Returns the text of a header with nothing but code."""
    return _COMMENT.sub("", text)


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


def _parameters(function: str, header: Path) -> list[tuple[str, str]]:
    """Returns the type and the name of each parameter."""
    found = re.search(rf"\b{function}\s*\(([^)]*)\)", without_comments(header.read_text()))
    parameters = [" ".join(each.split()) for each in found[1].split(",")] if found else []
    matches = [_PARAMETER.fullmatch(each) for each in parameters if each != "void"]
    return [(each[1].strip(), each[2]) for each in matches if each]


def parameters_of(symbol: str, header: Path) -> list[tuple[str, str]]:
    """Returns the parameters of phase 1, but for the workspace's size and the executor."""
    return _parameters(symbol + PHASE_1, header)[:-2]


def plan_declarations(operators: dict[str, Path]) -> Iterator[str]:
    """Yields the arguments and the planning function of each operator. Equal arguments have one type."""
    first: dict[str, str] = {}
    for symbol, header in sorted(operators.items()):
        name = symbol.removeprefix("aclnn")
        fields = "".join(f"  {kind} {snake_case(each)};\n" for kind, each in parameters_of(symbol, header))
        if fields in first:
            yield f"using {name}Arguments = {first[fields]}Arguments;\n"
        else:
            yield f"struct {name}Arguments {{\n{fields}}};\n"
        first.setdefault(fields, name)
        yield f"[[nodiscard]] Plan Plan{name}(const {name}Arguments& arguments);\n\n"


def _declared(parameters: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {name}" for kind, name in parameters)


def find_api(native: Path) -> dict[str, Path]:
    """Returns the headers of the functions of host/api, by their names."""
    written = {name for source in native.glob("host/api/*.cpp") for name in _API.findall(source.read_text())}
    headers = sorted(native.glob("include/*/*.h"))
    return {name: header for header in headers for name in functions_of(header) if name in written}


def api_entry_points(functions: dict[str, Path]) -> Iterator[str]:
    """Yields the definitions of the functions that call those of host/api."""
    for name, header in functions.items():
        result = next(each for each in _GUARDS if re.search(rf"\s{each} {name}\(", header.read_text()))
        parameters = _parameters(name, header)
        arguments = ", ".join(each for _, each in parameters)
        yield _ENTRY_POINT.format(
            result=result, guard=_GUARDS[result], name=name, parameters=_declared(parameters), arguments=arguments
        )


def entry_points(operators: dict[str, Path]) -> Iterator[str]:
    """Yields the definitions of both phases of each operator."""
    for symbol, header in sorted(operators.items()):
        parameters = parameters_of(symbol, header)
        declared = [*parameters, ("uint64_t*", "workspaceSize"), ("aclOpExecutor**", "executor")]
        yield _PHASES.format(
            symbol=symbol,
            name=symbol.removeprefix("aclnn"),
            parameters=_declared(declared),
            arguments=", ".join(name for _, name in parameters),
            first=next((name for kind, name in parameters if kind == "const aclTensor*"), "nullptr"),
        )


def find_wrong_declarations(native: Path) -> Iterator[str]:
    """Yields what the headers of operators declare twice, by halves, or in a way that nothing would export."""
    first: dict[str, Path] = {}
    for header in sorted(native.glob("include/aclnnop/*.h")):
        declared = functions_of(header)
        if not declared:
            yield f"{header} declares no operator: begin the line of each function with ACLNN_API, or remove it"
        for name in _FUNCTION.findall(without_comments(header.read_text())):
            if name not in declared:
                yield f"{header} declares {name} without ACLNN_API: begin the line of its declaration with it"
        for name in declared:
            pair = name.removesuffix(PHASE_1) if name.endswith(PHASE_1) else name + PHASE_1
            if pair not in declared:
                yield f"{header} declares {name} without {pair}: declare both there"
            if name in first:
                yield f"{header} declares {name}, as {first[name]} does: declare it in one of them"
            first.setdefault(name, header)


def find_plans(native: Path) -> dict[str, Path]:
    """Returns the source file that plans each operator, by the operator's symbol."""
    sources = sorted(native.glob("host/*/*/plan*.cpp"))
    return {f"aclnn{name}": source for source in sources for name in _PLAN.findall(source.read_text())}


def find_faults(native: Path, operators: dict[str, Path]) -> Iterator[str]:
    """Yields what is missing, and where it belongs."""
    yield from find_wrong_declarations(native)
    planned = find_plans(native)
    for symbol, header in operators.items():
        if symbol not in planned:
            plan = native / "host/operators" / folder_of(symbol) / "plan.cpp"
            yield (
                f"{header} declares {symbol}, which has no kernel: write its checks and plan in {plan}, "
                f"as the function Plan{symbol.removeprefix('aclnn')}"
            )
    for symbol, source in planned.items():
        if symbol not in operators:
            yield f"{source} plans {symbol}, which no header declares: declare it in {native / 'include/aclnnop'}"


def write(path: Path, text: str) -> None:
    """Writes a file only if its content changes, so that nothing is compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def functions_table(native: Path) -> str:
    """Returns the header with all functions of the ABI."""
    headers = [header for header in sorted(native.glob("include/*/*.h")) if functions_of(header)]
    checked = {name for source in native.glob("strict/*.cpp") for name in _CHECKED.findall(source.read_text())}
    includes = "".join(f'#include "{header.parent.name}/{header.name}"\n' for header in headers)
    variadic = {name for header in headers for name in _VARIADIC.findall(header.read_text())}

    def rows(is_variadic: bool) -> str:
        return "".join(
            f" \\\n  ROW({name}, {header.parent.name}, {f'checked::{name}' if name in checked else 'nullptr'})"
            for header in headers
            for name in functions_of(header)
            if (name in variadic) == is_variadic
        )

    # A template can take the arguments of the former on, and not those of the latter.
    tables = f"#define ABI_FUNCTIONS(ROW){rows(False)}\n\n#define ABI_VARIADIC_FUNCTIONS(ROW){rows(True)}\n"
    return f"// Written by operator_table.py.\n#pragma once\n\n{includes}\n{tables}"


def main(native: Path, target: Path) -> str | None:
    operators = find_operators(native)
    if faults := list(find_faults(native, operators)):
        return "\n".join(faults)
    headers = sorted({header.name for header in operators.values()})
    includes = "".join(f'#include "aclnnop/{name}"\n' for name in headers)
    begin = "// Written by operator_table.py.\n"
    rows = "".join(f" \\\n  ROW({symbol})" for symbol in sorted(operators))
    write(target / "operator_table.h", f"{begin}#pragma once\n\n{includes}\n#define ACLNN_OPERATORS(ROW){rows}\n")
    plans = "".join(plan_declarations(operators))
    write(
        target / "operator_plans.h",
        f'{begin}#pragma once\n\n#include "aclnn/acl_meta.h"\n#include "plan/plan.h"\n\n'
        f"namespace acl_host {{\n\n{plans}}}  // namespace acl_host\n",
    )
    api = find_api(native)
    declared = "".join(f"void {name}({_declared(_parameters(name, header))});\n" for name, header in api.items())
    abi = "".join(f'#include "{each}"\n' for each in sorted({f"{h.parent.name}/{h.name}" for h in api.values()}))
    write(target / "api.h", f"{begin}#pragma once\n\n{abi}\nnamespace acl_host::api {{\n\n{declared}\n}}\n")
    write(
        target / "entry_points.cpp",
        f'{begin}{includes}#include "api.h"\n#include "operator_plans.h"\n#include "plan/executor.h"\n'
        + "".join([*api_entry_points(api), *entry_points(operators)]),
    )
    write(target / "abi_functions.h", functions_table(native))
    names = [name for header in sorted(native.glob("include/**/*.h")) for name in functions_of(header)]
    listed = "".join(f"    {name};\n" for name in names)
    write(target / "exports.map", f"{{\n  global:\n{listed}  local:\n    *;\n}};\n")
    return None


if __name__ == "__main__":
    sys.exit(main(NATIVE, Path(sys.argv[1])))
