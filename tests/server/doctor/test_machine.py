"""Device nodes, and the cards that they tell of."""

import os
from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import machine
from aclgrad_server.doctor.machine import cards_of
from aclgrad_server.settings import Settings
from tests.server.doctor.subjects import examined


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "NODES", f"{tmp_path}/davinci[0-9]*")
    monkeypatch.setattr(machine, "_MANAGERS", (f"{tmp_path}/davinci_manager",))
    monkeypatch.setattr(machine, "_DRIVER_FILES", (f"{tmp_path}/version.info",))
    (tmp_path / "version.info").touch()
    return tmp_path


def test_nodes_that_may_be_opened(nodes: Path) -> None:
    for name in ("davinci0", "davinci10", "davinci_manager"):
        (nodes / name).touch(0o660)
    found = examined(machine.nodes, is_ascend=True)
    assert set(found) == {f"{nodes}/{name}" for name in ("davinci0", "davinci10", "davinci_manager")}
    assert {finding.verdict for finding in found.values()} == {Verdict.PASSED}


def test_a_node_of_another_user_is_named_with_its_owner(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nodes / "davinci0").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    finding = examined(machine.nodes, is_ascend=True)[f"{nodes}/davinci0"]
    assert finding.verdict is Verdict.FAILED
    assert f"owner {os.getuid()}:{os.getgid()}, mode 644" in finding.message
    assert f"run as user {os.getuid()}" in finding.message


def test_a_card_in_use_a_card_that_is_not_there_and_a_driver_that_is_not_mounted(nodes: Path) -> None:
    (nodes / "version.info").unlink()
    with (nodes / "davinci0").open("w"):
        found = examined(machine.nodes, {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}, is_ascend=True)
    assert f"process {os.getpid()} has it open" in found[f"{nodes}/davinci0"].message
    assert found["ASCEND_RT_VISIBLE_DEVICES"].message.startswith("names 1 of 1 cards; ")
    assert "mount it" in found[f"{nodes}/version.info"].message


def test_a_machine_without_a_card(nodes: Path) -> None:
    found = examined(machine.nodes, is_ascend=True)
    assert found[f"{nodes}/davinci[0-9]*"].verdict is Verdict.FAILED
    assert found[f"{nodes}/davinci_manager"].verdict is Verdict.NOTED
    assert examined(machine.nodes) == {}


@pytest.mark.parametrize(
    ("settings", "variables", "cards"),
    [
        ({}, {}, [0, 1, 2]),
        ({}, {"ASCEND_RT_VISIBLE_DEVICES": "0,2"}, [0, 1]),
        ({}, {"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3"}, [0, 1, 2]),
        ({"device": (2,)}, {}, [2]),
        ({"device": (2, 0), "workers": 3}, {}, [2, 0, 2]),
        ({"workers": 1}, {}, [0]),
    ],
)
def test_cards_are_those_of_the_nodes(
    settings: dict[str, object],
    variables: dict[str, str],
    cards: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "NODES", f"{tmp_path}/davinci[0-9]*")
    for number in range(3):
        (tmp_path / f"davinci{number}").touch()
    (tmp_path / "davinci_manager").touch()
    assert cards_of(Settings(**settings), variables, is_ascend=True) == cards


def test_a_machine_without_a_card_has_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it has no card is a finding of another examination."""
    monkeypatch.setattr(machine, "NODES", f"{tmp_path}/davinci[0-9]*")
    assert cards_of(Settings(), {}, is_ascend=True) == [0]
