"""Rows of a diagnosis: subject, finding and remedy. Both doctors print them and exit by them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

import click

from aclgrad.exit_codes import ExitCode

PASSED: Final = "passed"
NOTED: Final = "noted"
FAILED: Final = "failed"
_COLOURS: Final = {PASSED: "green", NOTED: "yellow", FAILED: "red"}


@dataclass(frozen=True, slots=True)
class Row:
    """One finding. `remedy` is empty if nothing is to be done, or if `found` has it."""

    name: str
    verdict: str
    found: str
    remedy: str = ""

    @property
    def line(self) -> str:
        told = f"{self.found}; {self.remedy}" if self.remedy else self.found
        return f"{self.name}: {told}"


def passed(name: str, found: str) -> Row:
    return Row(name, PASSED, found)


def noted(name: str, found: str, remedy: str = "") -> Row:
    """Returns a row that is worth knowing but not a problem."""
    return Row(name, NOTED, found, remedy)


def failed(name: str, found: str, remedy: str = "") -> Row:
    return Row(name, FAILED, found, remedy)


def report(rows: Iterable[Row], as_json: bool, echo: Callable[[str], object] = click.echo) -> int:
    """Prints each row as soon as it is known, then the counts, or one object at the end; returns the exit code."""
    found = []
    for row in rows:
        found.append(row)
        if not as_json:
            echo(click.style(f"{row.verdict:8}", fg=_COLOURS[row.verdict]) + row.line)
    counts = Counter(row.verdict for row in found)
    exit_code = ExitCode.WRONG if counts[FAILED] else ExitCode.WELL
    if as_json:
        told = {"exit_code": int(exit_code), **{name: counts[name] for name in _COLOURS}}
        click.echo(json.dumps({**told, "rows": [asdict(row) for row in found]}))
    else:
        echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return exit_code
