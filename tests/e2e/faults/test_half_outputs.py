"""A device that succeeds and writes the first half of each output: who judges it compares each element, and trusts no
code, so all operators are found."""

import re
from pathlib import Path

import pytest

import aclgrad
from aclgrad.judge.check import target
from aclgrad.operators.cases import first_cases
from aclgrad.operators.catalogue import OPERATORS
from tests.e2e.fault_plans import once, write_config
from tests.judge.checking import check
from tools.serving import Server

pytestmark = once

FAULT = {"kind": "half_output", "at": 1, "count": 2**62}


def test_the_self_test_turns_every_such_operator_off(tmp_path: Path) -> None:
    """Without any right operator, it would find the whole device unfit."""
    spared = max(OPERATORS)
    faults = [{**FAULT, "operator": spec.symbol} for name, spec in OPERATORS.items() if name != spared]
    config = write_config(tmp_path, *faults, faults_after_launches=0)
    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        served = {each.name for each in client.list_operators()}
        off = {each.name: each.reason for each in client.server_status().turned_off_operators}
    assert served == {spared}
    assert off.keys() == OPERATORS.keys() - {spared}
    assert all(re.fullmatch(r"device 0 computes \w+ wrongly", reason) for reason in off.values()), off


def test_check_fails_every_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device passes the self-test and is wrong from then on."""
    monkeypatch.setattr(target, "typed_cases", first_cases)
    with Server("--acl-config", write_config(tmp_path, FAULT)) as half:
        checked = check(tmp_path, half.address, only=("accuracy", "fills"))
    assert checked.exit_code == 1
    wrong = {row["operator"] for row in checked.rows if (row["check"], row["verdict"]) == ("accuracy", "failed")}
    assert wrong == set(OPERATORS)
