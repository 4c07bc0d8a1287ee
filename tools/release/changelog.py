"""The changelog: the changes that a release makes, their date, and the release's notes.

`python -m tools.release.changelog` prints the notes of the version that this tree has.
"""

import posixpath
import re
import sys
from datetime import date
from pathlib import Path
from typing import Final

from packaging.version import Version

from tools.release import RefusedError
from tools.release.git import source_url
from tools.release.versions import TAG, current_version

CHANGELOG: Final = "CHANGELOG.md"
UNRELEASED: Final = "Unreleased"
_LINK: Final = re.compile(r"(?<=\]\()(?!\w+:)(?P<path>[^)\s]+)(?=\))")


def date_changes(tree: Path, version: Version, day: date) -> None:
    """Gives the unreleased changes the version and its date; a candidate leaves them to its version."""
    path = tree / CHANGELOG
    changes = _section(path.read_text(), UNRELEASED)
    if re.search(r"^[-*] ", changes, re.MULTILINE) is None:
        raise RefusedError(f"{CHANGELOG} has no changes under `## {UNRELEASED}`; write what this release changes")
    if not version.is_prerelease:
        heading = f"## {UNRELEASED}\n"
        path.write_text(path.read_text().replace(heading, f"{heading}\n## {version} - {day.isoformat()}\n", 1))


def notes(root: Path) -> str:
    """Returns the notes of the version that the tree has; links lead to its tag at the remote, if there is one."""
    version = current_version(root)
    changes = _section((root / CHANGELOG).read_text(), UNRELEASED if version.is_prerelease else str(version))
    if not changes:
        raise RefusedError(f"{CHANGELOG} has no section of {version}; `make release` dates the unreleased one")
    if source := source_url(root):
        there = f"{source}/blob/{TAG}{version}"
        changes = _LINK.sub(lambda link: f"{there}/{posixpath.normpath(link['path'])}", changes)
    return f"# aclgrad {version}\n\n{changes}\n"


def _section(text: str, name: str) -> str:
    """Returns what stands under the heading of this name, which may have a date; empty if there is none."""
    found = re.search(rf"^## {re.escape(name)}(?: - [^\n]*)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


if __name__ == "__main__":
    try:
        print(notes(Path(__file__).resolve().parents[2]), end="")
    except RefusedError as error:
        sys.exit(str(error))
