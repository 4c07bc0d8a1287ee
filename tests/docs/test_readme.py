"""The README is short, and what its two stories print is what it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT
from tools.serving import clean_environment

README = (ROOT / "README.md").read_text()
MOST_WORDS = 900
_SECONDS = re.compile(r"[\d.]+ m?s$", re.MULTILINE)


def printed(*command: str, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return _SECONDS.sub("", done.stdout)


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_the_judge_prints_what_the_readme_shows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ((command, shown),) = re.findall(r"^```text\n\$ aclgrad (.*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = printed(str(Path(sys.executable).with_name("aclgrad")), *command.split(), folder=tmp_path).splitlines()
    assert [line for line in _SECONDS.sub("", shown).splitlines() if line not in {"...", *found}] == []


def test_the_step_prints_what_the_readme_shows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ((program, shown),) = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert printed(sys.executable, "-c", program, folder=tmp_path) == shown
