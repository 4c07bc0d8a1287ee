"""A run that did nothing has proved nothing: what judges ends with an error then."""

import subprocess
import sys
from pathlib import Path

import pytest

import tools.card.__main__ as card
from aclgrad.judge.findings.rows import Origin, Row, Verdict

pytestmark = pytest.mark.once
SKIPPED = Row(Origin("host", "310P", "", ""), "waits", "", "", (), "case", Verdict.SKIPPED, "not here", {}, 0.0)


@pytest.mark.parametrize("rows", [(), (SKIPPED, SKIPPED)], ids=["none", "all_skipped"])
def test_a_card_without_a_row_that_was_judged(monkeypatch: pytest.MonkeyPatch, rows: tuple[Row, ...]) -> None:
    monkeypatch.setattr("sys.argv", ["card", "--backend", "host"])
    monkeypatch.setattr(card, "_rows", lambda *_: iter(rows))
    assert card.main() == 1


def test_a_suite_whose_tests_are_all_skipped(tmp_path: Path) -> None:
    conftest = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text())
    (tmp_path / "test_skipped.py").write_text("import pytest\n\ndef test_it(): pytest.skip('not here')\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=conftest.parents[1], capture_output=True, text=True, check=False)
    assert "1 skipped" in done.stdout
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
