"""The last release, built from its commit into an environment of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build/released"


def version() -> str:
    """Returns that of the last section of the changelog."""
    found = re.search(r"^## (\d\S*) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def python() -> str:
    """Returns the interpreter that RELEASED_PYTHON names, or that of an environment, which is built once: minutes."""
    if named := os.environ.get("RELEASED_PYTHON"):
        return named
    name, commit = version(), _commit()
    folder = BUILD / name
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _build(commit, folder)
        (folder / "made").touch()
    return str(folder / "venv/bin/python")


def _commit() -> str:
    """Returns the release's tag, or the commit that gave its section to the changelog."""
    name = version()
    if _git("tag", "--list", f"v{name}"):
        return f"v{name}"
    commits = _git("log", "--reverse", "--format=%H", f"-S## {name} - ", "--", "CHANGELOG.md").split()
    if not commits:
        raise RuntimeError(f"git has no commit of {name}; fetch the whole history")
    return commits[0]


def _build(commit: str, folder: Path) -> None:
    print(f"builds {commit} in {folder}: some minutes, once", flush=True)
    source = folder / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", source], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "--quiet"]
    projects = [source / each for each in ("client", "native", "server")]
    subprocess.run([*pip, "--constraint", ROOT / "requirements.lock", *projects], check=True)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
