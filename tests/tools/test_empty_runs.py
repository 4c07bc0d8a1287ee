"""A run that did nothing has proved nothing: every tool that judges ends with an error then."""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

import tools.card.__main__ as card
import tools.lab.hostile.run as hostile
import tools.overlays.__main__ as overlays
import tools.rehearsal.__main__ as rehearsal
from aclgrad.judgement.rows import Origin, Row, Verdict
from aclgrad.products import Product

pytestmark = pytest.mark.once


def test_no_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "run", lambda *_: iter(()))
    assert hostile.main(ArgumentParser(), ["--short"]) == 1


def test_no_row_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["card", "--backend", "host"])
    monkeypatch.setattr(card, "_rows", lambda *_: iter(()))
    assert card.main() == 1


def test_a_card_whose_rows_are_all_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row(Origin("host", "310P", "", ""), "waits", "", "", (), "case", Verdict.SKIPPED, "not here", {}, 0.0)
    monkeypatch.setattr("sys.argv", ["card", "--backend", "host"])
    monkeypatch.setattr(card, "_rows", lambda *_: iter((row, row)))
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


def test_a_suite_whose_tests_are_all_skipped(tmp_path: Path) -> None:
    conftest = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text())
    (tmp_path / "test_skipped.py").write_text("import pytest\n\ndef test_it(): pytest.skip('not here')\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=conftest.parents[1], capture_output=True, text=True, check=False)
    assert "1 skipped" in done.stdout
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
