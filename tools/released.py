"""The last release, built from its commit into an environment of its own.

Until the next one it is the commit that last renewed `proto/released.binpb`, if that is later than the release.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build/released"


def python() -> str:
    """Returns the interpreter that RELEASED_PYTHON names, or that of an environment, which is built once: minutes."""
    if named := os.environ.get("RELEASED_PYTHON"):
        return named
    commit = _commit()
    folder = BUILD / commit[:12]
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _build(commit, folder)
        (folder / "made").touch()
    return str(folder / "venv/bin/python")


def _commit() -> str:
    """Returns the later one of two commits: of the changelog's last dated section, and of the protos released."""
    renewed = _git("log", "--max-count=1", "--format=%H", "--", "proto/released.binpb").split()
    # Before the first release no section has a date.
    section = re.search(r"^## \d\S* - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    dated = _git("log", "--max-count=1", "--format=%H", f"-S{section[0]}", "--", "CHANGELOG.md") if section else ""
    if not renewed or (section and not dated):
        raise RuntimeError("git has no commit of the last release; fetch the whole history")
    return _git("rev-list", "--no-walk", "--max-count=1", *dated.split(), *renewed)


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
