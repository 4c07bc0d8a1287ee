"""Commands that install, in pages and in messages: they work as they stand, where nothing of ours is published."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import ROOT, snippets

FOLDERS = ("client", "native", "server", "proto", "docs", "deploy", "examples", "website", "tools")
SUFFIXES = {".py", ".pyi", ".cpp", ".h", ".md", ".html", ".jinja", ".toml", ".yaml", ".proto"}
PROJECTS = {
    name: tomllib.loads((ROOT / name / "pyproject.toml").read_text()) for name in ("client", "native", "server")
}
COMMAND = re.compile(r"`pip install\s+(?P<inline>[^`]+)`|(?<![`.-])\bpip install (?P<line>[^\n`\"#]+)")
WHEELS = "dist/*.whl"
"""What `make dist` writes."""
LOCAL = re.compile(r"(?P<folder>\./\w+|\.)(\[(?P<extras>[\w,]+)\])?")


def sources() -> Iterator[Path]:
    """Yields what people read: pages, and files with messages."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            # Neither what others wrote nor what a build wrote.
            if path.suffix in SUFFIXES and not {"node_modules", "build", "v1"} & set(path.parts):
                yield path


def commands() -> Iterator[tuple[Path, list[str]]]:
    """Yields what each `pip install` installs."""
    for path in sources():
        for found in COMMAND.finditer(path.read_text()):
            words = shlex.split(found["inline"] or found["line"])
            yield path, [word for word in words if not word.startswith("-")]


def names(requirements: Any) -> set[str]:
    return {re.split(r"[^\w-]", each)[0].lower() for each in requirements if isinstance(each, str)}


def published() -> set[str]:
    """Returns the packages that this project requires of an index."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    required = [*groups.values()]
    for project in PROJECTS.values():
        required += [project["project"]["dependencies"], *project["project"].get("optional-dependencies", {}).values()]
    return set().union(*map(names, required)) - {"aclgrad", "aclgrad-native", "aclgrad-server"}


def problem(path: Path, word: str) -> str | None:
    found = LOCAL.fullmatch(word)
    if word == "aclgrad[{extra}]" and path == ROOT / "client/src/aclgrad/extras.py":
        return None
    if found is None:
        is_known = word in ("{wanted}", WHEELS) or names([word]) <= published()
        return None if is_known else "is neither a folder of the checkout nor a package that the project requires"
    folder = path.parent.name if found["folder"] == "." else found["folder"][2:]
    extras = PROJECTS[folder]["project"].get("optional-dependencies", {}) if folder in PROJECTS else None
    if extras is None:
        return "is no folder of the checkout"
    return None if set((found["extras"] or "").split(",")) <= {"", *extras} else "has no such extra"


def test_what_is_installed_exists() -> None:
    """`aclgrad` is on no index: until there is a release, packages come from the checkout.

    Messages of the client name extras of an `aclgrad` that is there: pip takes it from no index.
    """
    found = [(path, word) for path, words in commands() for word in words]
    assert len({path for path, _ in found}) > 5
    assert [(str(path.relative_to(ROOT)), word, told) for path, word in found if (told := problem(path, word))] == []


def test_pip_takes_the_extras_of_a_client_that_is_there_from_no_index() -> None:
    install = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet", "aclgrad[cli]"]
    assert subprocess.run(install, capture_output=True, text=True, check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    "name", ["README.md", "docs/quick-start.md", "docs/command-line.md", "docs/pytorch.md", "docs/jax.md"]
)
def test_pip_runs_in_an_environment(name: str) -> None:
    """Debian 12 and Ubuntu 24.04 refuse others (PEP 668)."""
    blocks = [each.text for each in snippets(ROOT / name) if each.language == "sh" and "pip install" in each.text]
    assert blocks
    for block in blocks:
        first, second = block.splitlines()[:2]
        assert first == "python3 -m venv .venv && . .venv/bin/activate"
        assert second.startswith(("pip install ./client", "pip install './client"))
    if name in ("README.md", "docs/quick-start.md"):
        assert "`sudo apt install python3-venv" in (ROOT / name).read_text()
