"""The workers that a server would have, which on cards the nodes tell, and no driver is asked."""

import tempfile
from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import workers
from aclgrad_server.doctor.workers import cards_of
from aclgrad_server.settings import Settings
from tests.server.doctor.subjects import examined


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
    monkeypatch.setattr(workers, "NODES", f"{tmp_path}/davinci[0-9]*")
    for number in range(3):
        (tmp_path / f"davinci{number}").touch()
    (tmp_path / "davinci_manager").touch()
    assert cards_of(Settings(**settings), variables, is_ascend=True) == cards


def test_a_machine_without_a_card_has_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it has no card is a finding of another examination."""
    monkeypatch.setattr(workers, "NODES", f"{tmp_path}/davinci[0-9]*")
    assert cards_of(Settings(), {}, is_ascend=True) == [0]


def test_what_is_told_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(workers.workers, cards=(3,))[""].message == "one process, which serves device 3"
    found = examined(workers.workers, cards=(0, 1, 0))
    assert found[""].message.startswith("3 and a supervisor, on the devices 0, 1, 0; those that share a device")
    assert found["TMPDIR"].verdict is Verdict.PASSED

    def missing() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", missing)
    finding = examined(workers.workers, cards=(0, 1))["TMPDIR"]
    assert finding.verdict is Verdict.FAILED
    assert "mount a small file system on /tmp" in finding.message
