"""A run that did nothing has proved nothing: every tool that judges ends with an error then."""

from pathlib import Path
from typing import Any

import pytest

import tools.card.__main__ as card
import tools.hostile.__main__ as hostile
import tools.overlays.__main__ as overlays
import tools.rehearsal.__main__ as rehearsal
from aclgrad.products import Product

pytestmark = pytest.mark.once


def test_no_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["hostile", "--short"])
    monkeypatch.setattr(hostile, "run", lambda *_: iter(()))
    assert hostile.main() == 1


def test_no_row_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["card", "--backend", "host"])
    monkeypatch.setattr(card, "_rows", lambda *_: iter(()))
    assert card.main() == 1


def test_no_overlay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "overlays").mkdir()
    monkeypatch.setattr(overlays, "FOLDER", tmp_path)
    monkeypatch.setattr(overlays, "sets", lambda: iter(()))
    assert overlays.main([]) == 1
    assert "nothing was checked" in capsys.readouterr().err


def test_a_runbook_without_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "first-day.md").write_text("## 1. Look\n\n```console\n$ npu-smi info\n```\n")
    monkeypatch.setattr(rehearsal, "RUNBOOK", tmp_path / "first-day.md")
    assert not rehearsal.rehearse(Product.ATLAS_A2, tmp_path / "run", 1, {})
    assert "has no step that ran" in capsys.readouterr().out
