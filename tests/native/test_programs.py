"""C++ programs that use the runtime from many threads, with or without sanitizers: see tests/sanitizers.py.

ACLGRAD_STRESS_FACTOR makes them that many times longer.
"""

import os

import pytest

import aclgrad_native
from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.operators.parts import samples_of
from tests import sanitizers
from tests.call_file import PRODUCT, write_calls

FACTOR = os.environ.get("ACLGRAD_STRESS_FACTOR", "1")
BUILD_TIMEOUT_S = 1800
LONG_ROW = 5000
"""Enough for the device to share the work out to its threads."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with small and large calls of every operator."""
    # What is written in place takes a form that the file has not; what stays inside has bytes of no meaning.
    small = [
        each
        for each in first_cases(PRODUCT)
        if not any(output.begins_as or output.stays_inside for output in each.spec.outputs)
    ]
    large = [
        TypedCase(typed.spec, case, typed.dtype)
        for typed in small
        for case in [*samples_of(typed.spec.name).rows(LONG_ROW)][:1]
    ]
    return str(write_calls(tmp_path_factory.mktemp("calls") / "calls", [*small, *large]))


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize("name", sorted(source.stem for source in sanitizers.PROGRAMS.glob("*.cpp")))
def test_program(name: str, calls: str) -> None:
    built = sanitizers.build()
    ((installed, _),) = aclgrad_native.library_files("host")
    arguments = (str(built.library or installed), FACTOR, calls)
    assert sanitizers.run(built.programs / name, *arguments, timeout_s=BUILD_TIMEOUT_S) == ""
