"""The README is short, and what its two stories print is what it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT
from tools.serving import clean_environment

README = (ROOT / "README.md").read_text()
MOST_WORDS, MOST_WORDS_OF_DOCS = 900, 17_000
_WRITTEN_BY_THE_BUILD = re.compile(r"<!-- [\w-]+: written by .*?<!-- end of [\w-]+ -->", re.DOTALL)
_SECONDS = re.compile(r"[\d.]+ m?s$", re.MULTILINE)


def printed(*command: str, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return _SECONDS.sub("", done.stdout)


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_the_docs_stay_short() -> None:
    """Together with the README, by hand, but for the facts about cards that docs/card-rules.md collects."""
    pages = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs/card-rules.md"}
    words = {str(page): len(_WRITTEN_BY_THE_BUILD.sub("", page.read_text()).split()) for page in pages}
    assert sum(words.values()) <= MOST_WORDS_OF_DOCS, sorted(words.items(), key=lambda each: -each[1])


def test_the_judge_prints_what_the_readme_shows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ((command, shown),) = re.findall(r"^```text\n\$ aclgrad ([^\n]*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = printed(str(Path(sys.executable).with_name("aclgrad")), *command.split(), folder=tmp_path)
    begin, end = _SECONDS.sub("", shown).split("...\n")
    assert found.startswith(begin)
    assert found.endswith(end)


def test_the_step_prints_what_the_readme_shows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ((program, shown),) = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert printed(sys.executable, "-c", program, folder=tmp_path) == shown
