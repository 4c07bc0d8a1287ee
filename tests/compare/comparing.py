"""Runs `aclgrad compare` and reads what it wrote."""

from pathlib import Path
from typing import Any

from tests.check.checking import Checked, judged


def compare(folder: Path, a: str, b: str, *arguments: str) -> Checked:
    """Runs the quick form, with a JSON file in the folder."""
    return judged("compare", folder, a, b, "--quick", *arguments)


def notable(compared: Checked) -> dict[str, dict[str, Any]]:
    """Returns the rows that did not pass, by operator."""
    return {row["operator"]: row for row in compared.rows if row["verdict"] != "passed"}
