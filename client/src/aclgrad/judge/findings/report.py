"""The findings of a whole run, and its end."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TextIO

from aclgrad.errors import ConnectionLostError, DeviceLostError, NotAuthenticatedError, ServerDrainingError, TlsError
from aclgrad.judge.findings.rows import Row, Verdict

GONE: Final = (ConnectionLostError, DeviceLostError, NotAuthenticatedError, ServerDrainingError, TlsError)
"""Errors that end a run: no other call would succeed either."""


class End(StrEnum):
    """How a run ended; other than `complete`, its report is partial."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    SERVER_GONE = "server gone"


_RANKS = {
    verdict: rank for rank, verdict in enumerate((Verdict.FAILED, Verdict.NOTED, Verdict.PASSED, Verdict.SKIPPED))
}
_EXIT_CODES = {End.INTERRUPTED: 130, End.SERVER_GONE: 2}


SAFE, NOT_SAFE, NOT_COMPARED = "safe", "not safe", "not compared"


@dataclass(frozen=True, slots=True)
class SwitchFinding:
    """Whether a switch of the server may be on: SAFE only after a complete run without a difference; and why."""

    switch: str
    verdict: str
    why: str


@dataclass(slots=True)
class Report:
    """The rows so far, and what follows from them.

    `servers` has what two servers that are compared say of themselves, by the names that the rows have for them.
    """

    planned: int = 0
    rows: list[Row] = field(default_factory=list)
    end: End = End.COMPLETE
    message: str = ""
    seconds: float = 0.0
    switches: Sequence[SwitchFinding] = ()
    servers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    conclusion: str = ""

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 if all is well, 1 after a failed row, 2 if nothing was judged or the server went away, 130 after Ctrl-C."""
        if self.end in _EXIT_CODES:
            return _EXIT_CODES[self.end]
        if self.count(Verdict.FAILED):
            return 1
        return 0 if self.count(Verdict.PASSED) or self.count(Verdict.NOTED) else 2

    def summary(self) -> dict[str, object]:
        """Returns the content of the last line of a JSON file."""
        return {
            "end": self.end,
            "message": self.message,
            "exit_code": self.exit_code,
            "planned": self.planned,
            "rows": len(self.rows),
            **{verdict: self.count(verdict) for verdict in Verdict},
            "seconds": round(self.seconds, 1),
            "servers": self.servers,
            "conclusion": self.conclusion,
            "switches": {each.switch: {"verdict": each.verdict, "why": each.why} for each in self.switches},
        }


def worst_first(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows in the order in which a reader needs them: failed ones first, by their error of the limit."""

    def rank(row: Row) -> tuple[int, float]:
        error = row.figures.get("error_of_limit")
        # An error without a finite share of its limit is beyond all others.
        return _RANKS[row.verdict], -(math.inf if error is None and row.worst else error or 0.0)

    return sorted(rows, key=rank)


def names_of(rows: Sequence[Row]) -> str:
    """Returns the operators of the rows, or the checks where there is none."""
    return ", ".join(sorted({row.operator or row.check for row in rows}))


def write_line(file: TextIO, fields: object) -> None:
    """Writes one object as a line, at once: an interrupted run leaves whole lines."""
    file.write(json.dumps(fields, allow_nan=False) + "\n")
    file.flush()


def read_rows(path: Path) -> list[Row]:
    """Returns the rows of a file that `--json` wrote; raises ValueError for another file."""
    rows = []
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        try:
            fields = json.loads(line)
            if "summary" not in fields:
                rows.append(Row.from_json(fields))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} of {path} is not a row: {error!r}; give a file of --json") from error
    return rows
