"""The versions of the driver and of CANN's packages, which have to fit together."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aclgrad_native.backends import files_in, toolkit_folder

DRIVER: Final = Path("/usr/local/Ascend/driver")
_VERSION_FILE: Final = "version.info"


def installed_versions(environment: Mapping[str, str] = os.environ, driver: Path = DRIVER) -> dict[str, str]:
    """Returns what is installed by the names of the packages; those whose version cannot be read are left out."""
    return dict(_versions(environment, driver))


def _versions(environment: Mapping[str, str], driver: Path) -> Iterator[tuple[str, str]]:
    for file in (driver / _VERSION_FILE, *files_in(toolkit_folder(environment), f"*/{_VERSION_FILE}")):
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        if found := re.search(r"^\s*version\s*=\s*\[?([^\s\]]+)", text, re.IGNORECASE | re.MULTILINE):
            yield file.parent.name, found[1]
