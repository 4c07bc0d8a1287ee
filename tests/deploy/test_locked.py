"""What the image and its developers install: pinned with hashes, and what the distributions ask for."""

import runpy
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "deploy/requirements.lock").read_text()
OF_DEVELOPERS = (ROOT / "requirements.lock").read_text()


def pins(lock: str) -> dict[str, set[str]]:
    """Returns the versions of each package; there are several where they depend on the version of Python."""
    locked: dict[str, set[str]] = {}
    for line in lock.splitlines():
        if not line.startswith((" ", "#")):
            requirement = Requirement(line.removesuffix(" \\"))
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            locked.setdefault(canonicalize_name(requirement.name), set()).add(specifier.version)
    return locked


@pytest.mark.parametrize(("function", "lock"), [("dependencies", LOCK), ("development_dependencies", OF_DEVELOPERS)])
def test_locks_have_what_is_asked_for(function: str, lock: str) -> None:
    """If it fails, run `make lock`."""
    locked = pins(lock)
    for needed in map(Requirement, runpy.run_path(str(ROOT / "deploy/dependencies.py"))[function]()):
        versions = locked[canonicalize_name(needed.name)]
        assert all(map(needed.specifier.contains, versions)), needed
    # Where packages come from is up to whoever builds.
    assert "://" not in lock


def test_the_image_has_the_versions_of_its_developers_and_a_hash_of_everything() -> None:
    known = pins(OF_DEVELOPERS)
    assert all(versions <= known[name] for name, versions in pins(LOCK).items())
    blocks = LOCK.split("\n")
    assert all(blocks[index + 1].startswith("    --hash=sha256:") for index, line in enumerate(blocks) if "==" in line)
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes --requirement requirements.lock" in dockerfile
    assert dockerfile.count("pip --python") == dockerfile.count("--no-compile --no-deps") == 2
