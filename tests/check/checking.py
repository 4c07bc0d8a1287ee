"""Runs `aclgrad check` and reads what it wrote."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from aclgrad.commands import program as aclgrad


@dataclass(frozen=True)
class Checked:
    """A finished run."""

    exit_code: int
    output: str
    rows: list[dict[str, Any]]
    summary: dict[str, Any]

    def verdicts(self, check: str) -> set[str]:
        return {row["verdict"] for row in self.rows if row["check"] == check}


def check(folder: Path, *arguments: str, only: Sequence[str] = ()) -> Checked:
    """Runs the quick form, or these checks of it, with a JSON file in the folder."""
    chosen = [word for name in only for word in ("--only", name)]
    return judged("check", folder, "--quick", *chosen, *arguments)


def judged(command: str, folder: Path, *arguments: str) -> Checked:
    """Runs a command that judges, with a JSON file in the folder."""
    path = folder / "rows.jsonl"
    result = CliRunner().invoke(aclgrad, [command, "--json", str(path), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Checked(result.exit_code, result.output, *read(path))


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if "summary" not in line], next((x["summary"] for x in lines if "summary" in x), {})
