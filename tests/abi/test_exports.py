"""The library exports what the headers declare, no more and no less."""

import re
import subprocess
from pathlib import Path

import pytest

from tools.abi.prototypes import INCLUDE, read_prototypes


@pytest.mark.needs("exports")
def test_exports_are_the_declared_functions(library_path: str) -> None:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library_path], capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[-1] for line in listing.splitlines()} == set(read_prototypes())


def test_every_declaration_is_recognised() -> None:
    # A declaration that the regular expression misses would escape both tests above.
    text = "".join(Path(header).read_text() for header in INCLUDE.rglob("*.h"))
    marked = len(re.findall(r"^(?:ACL_FUNC_VISIBILITY|ACLNN_API)\s", text, re.MULTILINE))
    assert marked == len(read_prototypes()) > 60
