"""A device that succeeds and writes the first half of each output: every tool that judges it finds it for every
operator, because all of them compare each element and none trusts a code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import aclgrad
from aclgrad.check import target
from aclgrad.operators.cases import first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.check.checking import check, judged
from tests.e2e.fault_plans import once, write_config
from tools.serving import Server

pytestmark = once

FAULT = {"kind": "half_output", "at": 1, "count": 2**62}


@pytest.fixture(scope="module")
def few() -> Iterator[None]:
    """Leaves the first case of each operator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "typed_cases", first_cases)
        yield


@pytest.fixture(scope="module")
def half(few: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose device has passed the self-test, and does it from then on."""
    with Server("--acl-config", write_config(tmp_path_factory.mktemp("half"), FAULT)) as server:
        yield server


@pytest.mark.parametrize("spared", [min(OPERATORS), max(OPERATORS)])
def test_the_self_test_turns_every_such_operator_off(tmp_path: Path, spared: str) -> None:
    """Without any right operator, it would find the whole device unfit."""
    faults = [{**FAULT, "operator": spec.symbol} for name, spec in OPERATORS.items() if name != spared]
    config = write_config(tmp_path, *faults, faults_after_launches=0)
    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        served = {each.name for each in client.list_operators()}
        off = {each.name: each.reason for each in client.server_status().turned_off_operators}
    assert served == {spared}
    assert off.keys() == OPERATORS.keys() - {spared}
    assert all(re.fullmatch(r"device 0 computes \w+ wrongly", reason) for reason in off.values()), off


def test_check_fails_every_operator(half: Server, tmp_path: Path) -> None:
    checked = check(tmp_path, half.address, only=("accuracy", "fills"))
    assert checked.exit_code == 1
    wrong = {row["operator"] for row in checked.rows if (row["check"], row["verdict"]) == ("accuracy", "failed")}
    assert wrong == set(OPERATORS)


def test_compare_fails_every_operator(half: Server, tmp_path: Path) -> None:
    with Server("--acl-config", write_config(tmp_path)) as sound:
        compared = judged("compare", tmp_path, sound.address, half.address, "--quick")
    assert compared.exit_code == 1
    failed = [row for row in compared.rows if row["verdict"] == "failed"]
    assert {row["operator"] for row in failed} == set(OPERATORS)
    assert {(row["figures"]["a_wrong"], row["figures"]["b_wrong"]) for row in failed} == {(0, 1)}


def test_first_cases_have_every_operator() -> None:
    assert {typed.spec.name for typed in first_cases(Product.ATLAS_A2)} == set(OPERATORS)
