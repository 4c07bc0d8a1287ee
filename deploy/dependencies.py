"""Prints what the three distributions need of others, with --dev what people who develop them need besides, or with
--build what makes their wheels.

That is the input of `make lock`, which pins it in deploy/requirements.lock, requirements.lock and
tools/wheels/requirements.lock.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

OWN = ("aclgrad", "aclgrad-native", "aclgrad-server")
PROJECTS = ("client", "native", "server")
PINNED = ("frameworks",)
"""Groups that give exact versions themselves: builds for CPUs, which have versions of their own."""
ROOT = Path(__file__).resolve().parents[1]


def read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


def dependencies() -> list[str]:
    """Returns every requirement of a server and of its traces, in order, but for our own distributions."""
    projects = [read(ROOT / folder / "pyproject.toml")["project"] for folder in PROJECTS]
    needed = {each for project in projects for each in project["dependencies"]}
    needed.update(projects[-1]["optional-dependencies"]["otel"])
    return sorted(each for each in needed if each.partition("==")[0] not in OWN)


def development_dependencies() -> list[str]:
    """Returns these, those of the commands, and those of every group that `make` installs."""
    commands = read(ROOT / "client/pyproject.toml")["project"]["optional-dependencies"]["cli"]
    groups = read(ROOT / "pyproject.toml")["dependency-groups"]
    # A group that another one includes is among them itself.
    grouped = {each for name, group in groups.items() if name not in PINNED for each in group if isinstance(each, str)}
    return sorted({*dependencies(), *commands, *grouped})


def build_dependencies() -> list[str]:
    """Returns what pip installs to build the wheels."""
    needed = {
        each for folder in PROJECTS for each in read(ROOT / folder / "pyproject.toml")["build-system"]["requires"]
    }
    return sorted({*needed, *read(ROOT / "pyproject.toml")["dependency-groups"]["build"]})


if __name__ == "__main__":
    functions = {"--dev": development_dependencies, "--build": build_dependencies}
    print("\n".join(functions.get(sys.argv[-1], dependencies)()))
