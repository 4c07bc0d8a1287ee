"""The units of deploy/systemd as systemd reads them."""

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "deploy/systemd"
SERVICE: Final = FOLDER / "aclgrad-server.service"
TEMPLATE: Final = FOLDER / "aclgrad-server@.service"
ASCEND: Final = FOLDER / "ascend.conf"
PROGRAM: Final = "/opt/aclgrad/bin/aclgrad-server"
_SECONDS: Final = {"": 1, "min": 60}


def assignments(unit: Path) -> list[tuple[str, str]]:
    """Returns every key with its value, in order."""
    text = unit.read_text().replace("\\\n", " ")
    return re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)


def value(unit: Path, key: str) -> str:
    """Returns the value of a key that occurs once."""
    (found,) = (each for name, each in assignments(unit) if name == key)
    return found


def seconds(unit: Path, key: str) -> float:
    found = re.fullmatch(r"(\d+)(min)?", value(unit, key))
    assert found
    return int(found[1]) * _SECONDS[found[2] or ""]
