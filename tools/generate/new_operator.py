"""Writes the stubs of a new operator from its declaration in native/include/aclnnop, and prints what is left to do.

The stubs are made from `operator_stubs`, with a small kernel that compiles; the steps are those of ARCHITECTURE.md.

Usage: make new-operator SYMBOL=aclnnUpsampleNearest2dBackward [FAMILY=FAMILY | LIKE=OPERATOR]

With FAMILY, the operator becomes a row in that family's modules. With LIKE, the stubs are copies of another operator's
files under the new names.
"""

import argparse

from native.operator_table import find_operators, find_plans, find_wrong_declarations, folder_of
from tools.generate.declarations import completed_header, declaration_of
from tools.generate.stubs import NATIVE, PYTHON, ROOT, copies, rows, stubs

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
EXAMPLE = "prelu_backward"
"""The operator whose name stands in the steps."""


def steps(name: str, family: str | None) -> str:
    """Returns what ARCHITECTURE.md says of a new operator after the stubs are there; a row has its family's folders."""
    section = ARCHITECTURE.read_text().partition("## Adding an operator\n")[2].partition("\n## ")[0]
    left = section[section.index("\n3. ") :]
    if family is not None:
        left = left.replace(f"aclgrad/operators/{EXAMPLE}/", f"aclgrad/operators/families/{family}/")
        left = left.replace(f"host/operators/{EXAMPLE}/", f"host/families/{family}/")
    return left.replace(EXAMPLE, name)


def main() -> None:
    parser = argparse.ArgumentParser(usage="make new-operator SYMBOL=aclnn... [FAMILY=FAMILY | LIKE=OPERATOR]")
    parser.add_argument("symbol", help="CANN's name, such as aclnnUpsampleNearest2dBackward")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--family", help="a family to whose modules a row is added, in place of a folder")
    ways.add_argument("--like", help="an operator whose files are copied in place of empty stubs")
    given = parser.parse_args()
    completed = completed_header(ROOT / "native", given.symbol)
    headers = find_operators(ROOT / "native")
    wrong = list(find_wrong_declarations(ROOT / "native"))
    if completed is not None:
        headers[given.symbol] = completed[0]
        wrong = [each for each in wrong if not each.startswith(f"{completed[0]} ")]
    if wrong:
        raise SystemExit("\n".join(wrong))
    if given.symbol not in headers:
        raise SystemExit(
            f"no header in native/include/aclnnop declares {given.symbol or 'SYMBOL=, which is empty'}; "
            "first put CANN's declaration there, under the file name that CANN gives it"
        )
    declared = declaration_of(given.symbol, headers[given.symbol])
    symbols = {folder_of(each): each for each in headers if each != given.symbol}
    if given.family is not None:
        files = rows(declared, given.family)
    else:
        files = stubs(declared) if given.like is None else copies(declared, given.like, symbols)
    for folder in (PYTHON / declared.name, NATIVE / declared.name):
        if any(folder.glob("*.*")):
            raise SystemExit(f"{folder.relative_to(ROOT)} exists; remove it first")
    for path in files if given.family is not None else ():
        if f'"{declared.name}"' in path.read_text():
            raise SystemExit(f"{path.relative_to(ROOT)} has a row of {declared.name}; remove it first")
    # Nothing is written before this line, so that a refused command changes nothing.
    if completed is not None:
        header, text = completed
        header.write_text(text)
        print(f"completed {header.relative_to(ROOT)}")
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    if given.like is not None and not any(path.is_relative_to(NATIVE) for path in files):
        table = find_plans(ROOT / "native")[symbols[given.like]].relative_to(ROOT)
        print(f"add a row to {table}, which has that of {given.like}")
    print(steps(declared.name, given.family).rstrip())


if __name__ == "__main__":
    main()
