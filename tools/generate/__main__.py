"""Writes the files and tables that follow from the source; with --check it only says whether they are current.

Files that list the operators are generated so that editors and type checkers see real names.
"""

import subprocess
import sys
from importlib import import_module
from typing import Final

from tools.generate.completeness import NATIVE, problems, undeclared, unwritten
from tools.generate.homes import homes

WRITERS: Final = ("lists", "pages", "truths", "alerts")
"""Modules whose `files` returns what is to be written."""


def main() -> int:
    incomplete = list(problems())
    is_sound = not incomplete
    for folder in (NATIVE / "include/aclnnop", *sorted(NATIVE.glob("host/[of]*/*/"))):
        incomplete += unwritten(folder, f"{folder.parent.name}/{folder.name}")
    specs = sorted((spec for home in homes() for spec in home.specs()), key=lambda each: each.name)
    incomplete = incomplete or list(undeclared(specs))
    if incomplete:
        print(*incomplete, *["the Python half is sound"] * is_sound, sep="\n", file=sys.stderr)
        return 1
    is_check, exit_code, is_stale = sys.argv[1:] == ["--check"], 0, False
    for writer in WRITERS:
        for path, content in import_module(f"tools.generate.{writer}").files(specs).items():
            if path.exists() and path.read_bytes() == content:
                continue
            if is_check:
                print(f"{path.relative_to(NATIVE.parent)} is not current; run `make generate`", file=sys.stderr)
                exit_code = 1
            else:
                path.write_bytes(content)
                is_stale |= path.suffix == ".py"
        if is_stale:
            # The others follow from lists that this process has imported as they were.
            return subprocess.run([sys.executable, "-m", "tools.generate"], check=False).returncode
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
