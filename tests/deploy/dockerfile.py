"""The Dockerfile as a builder reads it."""

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = (ROOT / "Dockerfile").read_text()


class Instruction(NamedTuple):
    """One instruction, its continued lines joined."""

    name: str
    text: str


def instructions(stage: str) -> list[Instruction]:
    """Returns the instructions of a stage, without its FROM."""
    (found,) = re.findall(rf"^FROM \S+ AS {stage}$(.*?)(?=^FROM|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for line in found.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [Instruction(*line.split(" ", 1)) for line in joined.splitlines()]
