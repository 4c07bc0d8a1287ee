"""What the image installs: pinned with hashes, and what the distributions ask for."""

import runpy
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "deploy/requirements.lock").read_text()


def pins() -> list[Requirement]:
    return [Requirement(line.removesuffix(" \\")) for line in LOCK.splitlines() if not line.startswith((" ", "#"))]


def test_lock_has_what_the_distributions_ask_for_and_a_hash_of_everything() -> None:
    """If it fails, run `make lock`."""
    dependencies = runpy.run_path(str(ROOT / "deploy/dependencies.py"))["dependencies"]()
    locked = {canonicalize_name(each.name): [] for each in pins()}
    for each in pins():
        (specifier,) = each.specifier
        assert specifier.operator == "=="
        locked[canonicalize_name(each.name)].append(specifier.version)
    for needed in map(Requirement, dependencies):
        versions = locked[canonicalize_name(needed.name)]
        assert versions
        assert all(map(needed.specifier.contains, versions)), needed
    blocks = LOCK.split("\n")
    assert all(blocks[index + 1].startswith("    --hash=sha256:") for index, line in enumerate(blocks) if "==" in line)
    # Where packages come from is up to whoever builds.
    assert "://" not in LOCK
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes --requirement requirements.lock" in dockerfile
    assert dockerfile.count("pip --python") == dockerfile.count("--no-compile --no-deps") == 2
