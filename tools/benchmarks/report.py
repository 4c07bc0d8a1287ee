"""The one report: tables that are printed row by row, and written as Markdown and JSON."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aclgrad
from aclgrad.commands.machine import machine

FOLDER: Final = Path("build/bench")
_WIDTH: Final = 10


class Report:
    """Everything that a run measures; its first words name the machine."""

    def __init__(self, name: str, about: str) -> None:
        self._name = name
        self._tables: list[dict[str, Any]] = []
        self._about = f"{about.strip()}\n\n{conditions()}."
        self._tell_load()

    def table(self, title: str, *headings: str) -> None:
        """Begins a table."""
        self._tables.append({"title": title, "headings": headings, "rows": []})
        print(f"\n{title}\n" + "  ".join(each.rjust(_WIDTH) for each in headings), flush=True)

    def row(self, *cells: str) -> None:
        self._tables[-1]["rows"].append(cells)
        print("  ".join(each.rjust(_WIDTH) for each in cells), flush=True)

    def write(self) -> None:
        """Writes both files; ends the program if nothing was measured."""
        if not any(each["rows"] for each in self._tables):
            raise SystemExit("nothing was measured: no row has these sizes")
        FOLDER.mkdir(parents=True, exist_ok=True)
        lines = [f"# {self._name}\n", self._about]
        for each in self._tables:
            lines += [f"\n## {each['title']}\n", _line(each["headings"]), "|---" * len(each["headings"]) + "|"]
            lines += map(_line, each["rows"])
        (FOLDER / f"{self._name}.md").write_text("\n".join(lines) + "\n")
        (FOLDER / f"{self._name}.json").write_text(json.dumps(self._tables, indent=2))
        self._tell_load()
        print(f"the report is in {FOLDER}/{self._name}.md and .json")

    def _tell_load(self) -> None:
        print(f"load average {os.getloadavg()[0]:.1f}")


def conditions() -> str:
    """Returns the date, the commit and the machine."""
    return f"{datetime.now(UTC):%Y-%m-%d}, {commit()}, {machine()}"


def commit() -> str:
    """Returns what is measured, of a checkout its commit."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    ).stdout.strip()
    return f"commit {told}" if told else f"aclgrad {aclgrad.__version__}"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
