"""Writes the files and tables that follow from the source; with --check it only says whether they are current.

Files that list the operators are generated so that editors and type checkers see real names.
"""

import sys
from importlib import import_module
from typing import Final

from tools.generate.completeness import NATIVE, problems, undeclared, unwritten
from tools.generate.homes import homes

WRITERS: Final = ("lists", "pages", "truths", "alerts")
"""Modules whose `files` returns what is to be written. Each is imported after those before it have written."""


def main() -> int:
    incomplete = list(problems())
    for folder in (NATIVE / "include/aclnnop", *sorted(NATIVE.glob("host/[of]*/*/"))):
        incomplete += unwritten(folder, f"{folder.parent.name}/{folder.name}")
    specs = sorted((spec for home in homes() for spec in home.specs()), key=lambda each: each.name)
    incomplete = incomplete or list(undeclared(specs))
    if incomplete:
        print(*incomplete, sep="\n", file=sys.stderr)
        return 1
    is_check, exit_code = sys.argv[1:] == ["--check"], 0
    for writer in WRITERS:
        for path, content in import_module(f"tools.generate.{writer}").files(specs).items():
            if path.exists() and path.read_bytes() == content:
                continue
            if is_check:
                print(f"{path.relative_to(NATIVE.parent)} is not current; run `make generate`", file=sys.stderr)
                exit_code = 1
            else:
                path.write_bytes(content)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
