"""The changelog: what is unreleased becomes the section of a version."""

import re
from datetime import date
from pathlib import Path
from typing import Final

from packaging.version import Version

from tools.release import RefusedError

NAME: Final = "CHANGELOG.md"
_UNRELEASED: Final = re.compile(r"^## Unreleased\n(?P<changes>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def unreleased(root: Path) -> str:
    """Returns the lines of changes that no release has; refuses to release none."""
    found = _UNRELEASED.search((root / NAME).read_text())
    if found is None or not re.search(r"^[-*] ", found["changes"], re.MULTILINE):
        raise RefusedError(f"{NAME} has no changes under `## Unreleased`; write what this release changes")
    return found["changes"]


def cut_section(root: Path, version: Version, day: date) -> None:
    """Puts the heading of the version over what is unreleased, and an empty section before it."""
    path = root / NAME
    heading = f"## Unreleased\n\n## {version} - {day.isoformat()}\n"
    path.write_text(_UNRELEASED.sub(lambda found: heading + found["changes"], path.read_text(), count=1))
