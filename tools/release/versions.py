"""The version: where it is written, and which may come next."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.version import Version

from tools.release import RefusedError

PROJECTS: Final = ("client/pyproject.toml", "native/pyproject.toml", "server/pyproject.toml")
TAG: Final = "v"
"""Before the version in the name of a tag."""
_FORM: Final = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(rc[1-9]\d*)?")
_VERSION: Final = re.compile(r'^version = "([^"]*)"$', re.MULTILINE)
_PIN: Final = re.compile(r'"(aclgrad|aclgrad-native|aclgrad-server)==([^"]*)"')


def parse(text: str) -> Version:
    """Returns the version, which has three numbers and may be a release candidate."""
    if _FORM.fullmatch(text) is None:
        raise RefusedError(f"{text!r} is no version of this project; write it like 1.2.3 or 1.2.3rc1")
    return Version(text)


def current_version(root: Path) -> Version:
    """Returns the version that all three projects have."""
    written = {name: _only(_VERSION.findall((root / name).read_text()), name) for name in PROJECTS}
    if len(set(written.values())) > 1:
        raise RefusedError(f"the projects differ in version: {written}; give them one first")
    return parse(written[PROJECTS[0]])


def check_is_next(version: Version, written: Version, tags: Iterable[str]) -> None:
    """Refuses a version that is not later than every released one.

    If nothing is released yet, the version that the projects have may be the first, and so may its candidates.
    """
    if f"{TAG}{version}" in tags:
        raise RefusedError(f"the tag {TAG}{version} exists; delete it if that release never left this machine")
    tagged = [
        Version(text) for each in tags if each.startswith(TAG) and _FORM.fullmatch(text := each.removeprefix(TAG))
    ]
    if not tagged and Version(version.base_version) >= written:
        return
    latest = max([written, *tagged])
    if version <= latest:
        raise RefusedError(f"{version} is not later than {latest}; choose a later version")


def write_version(root: Path, version: Version) -> None:
    """Gives the projects the version, and each of their pins among themselves."""
    for name in PROJECTS:
        path = root / name
        text = _VERSION.sub(f'version = "{version}"', path.read_text())
        path.write_text(_PIN.sub(rf'"\1=={version}"', text))


def _only(found: list[str], name: str) -> str:
    if len(found) != 1:
        raise RefusedError(f"{name} has {len(found)} lines `version = ...`; it needs one")
    return found[0]
