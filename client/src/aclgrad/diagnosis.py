"""Rows of a diagnosis: what was looked at, what was found, and what to do. Both doctors print and end by them."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

import click

PASSED: Final = "passed"
NOTED: Final = "noted"
FAILED: Final = "failed"
_COLOURS: Final = {PASSED: "green", NOTED: "yellow", FAILED: "red"}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked at. `remedy` is empty if nothing is to be done, or if `found` has it."""

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
    """Returns a row of what is worth knowing and stops nothing."""
    return Row(name, NOTED, found, remedy)


def failed(name: str, found: str, remedy: str = "") -> Row:
    return Row(name, FAILED, found, remedy)


def report(rows: Iterable[Row], as_json: bool) -> int:
    """Prints each row as soon as it is known, then the counts; returns the exit code: 1 if a row failed."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.verdict] += 1
        verdict = click.style(f"{row.verdict:8}", fg=_COLOURS[row.verdict])
        click.echo(json.dumps(asdict(row)) if as_json else verdict + row.line)
    exit_code = int(counts[FAILED] > 0)
    if as_json:
        click.echo(json.dumps({"summary": {"exit_code": exit_code, **{name: counts[name] for name in _COLOURS}}}))
    else:
        click.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return exit_code
