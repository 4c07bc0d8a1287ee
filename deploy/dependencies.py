"""Prints what the three distributions need of others, or with --dev what people who develop them need besides.

That is the input of `make lock`, which pins it in deploy/requirements.lock and requirements.lock.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

OWN = ("aclgrad", "aclgrad-native", "aclgrad-server")
PINNED = ("frameworks",)
"""Groups that give exact versions themselves: builds for CPUs, which have versions of their own."""
ROOT = Path(__file__).resolve().parents[1]


def read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


def dependencies() -> list[str]:
    """Returns every requirement of a server, in order, but for our own distributions."""
    projects = [read(ROOT / folder / "pyproject.toml")["project"] for folder in ("client", "native", "server")]
    needed = {each for project in projects for each in project["dependencies"]}
    return sorted(each for each in needed if each.partition("==")[0] not in OWN)


def development_dependencies() -> list[str]:
    """Returns these, those of the commands, and those of every group that `make` installs."""
    commands = read(ROOT / "client/pyproject.toml")["project"]["optional-dependencies"]["cli"]
    groups = read(ROOT / "pyproject.toml")["dependency-groups"]
    grouped = {each for name, group in groups.items() if name not in PINNED for each in group}
    return sorted({*dependencies(), *commands, *grouped})


if __name__ == "__main__":
    print("\n".join(development_dependencies() if "--dev" in sys.argv else dependencies()))
