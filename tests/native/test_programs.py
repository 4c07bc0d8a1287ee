"""C++ programs that use the runtime from many threads, with or without sanitizers: see tests/sanitizers.py.

ACLGRAD_STRESS_FACTOR makes them that many times longer.
"""

import os

import pytest

import aclgrad_native
from tests import sanitizers

FACTOR = os.environ.get("ACLGRAD_STRESS_FACTOR", "1")
BUILD_TIMEOUT_S = 900


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize("name", sorted(source.stem for source in sanitizers.PROGRAMS.glob("*.cpp")))
def test_program(name: str) -> None:
    built = sanitizers.build()
    ((installed, _),) = aclgrad_native.library_files("host")
    arguments = (str(built.library or installed), FACTOR)
    assert sanitizers.run(built.programs / name, *arguments, timeout_s=BUILD_TIMEOUT_S) == ""
