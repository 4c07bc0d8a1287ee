"""Which libraries are found, and what they lack."""

from pathlib import Path

import pytest

import aclgrad_native
from aclgrad.check.rows import Verdict
from aclgrad.operators.catalogue import OPERATORS
from aclgrad_server.doctor import libraries
from tests.native import shims
from tests.server.doctor.subjects import examined

SYMBOLS = {spec.symbol for spec in OPERATORS.values()}
MISSING = OPERATORS["roi_align_v2_backward"].symbol


def test_the_host_library_has_every_operator() -> None:
    ((host, _),) = aclgrad_native.library_files("host")
    found = examined(libraries.libraries, backend="host")
    assert {finding.verdict for finding in found.values()} == {Verdict.PASSED}
    assert set(found) == SYMBOLS | {host}


@pytest.mark.parametrize("phase", [pytest.param("GetWorkspaceSize", marks=pytest.mark.slow), ""])
def test_an_operator_that_the_library_lacks_is_named(tmp_path: Path, phase: str) -> None:
    found = examined(libraries.libraries, backend=str(shims.without(tmp_path, MISSING + phase)))
    failed = {name: finding.message for name, finding in found.items() if finding.verdict is Verdict.FAILED}
    assert list(failed) == [MISSING]
    assert failed[MISSING].startswith(f"no library has {MISSING}{phase}; install ")


def test_a_machine_without_cann_is_told_what_was_looked_for() -> None:
    variables = {"ASCEND_HOME_PATH": "/nowhere"}
    found = examined(libraries.libraries, variables, backend="ascend")
    assert found["libascendcl.so"].verdict is Verdict.FAILED
    assert found["libnnopbase.so"].verdict is Verdict.FAILED
    assert found["libopapi.so"].verdict is Verdict.NOTED
    assert "set_env.sh" in found["libascendcl.so"].message
