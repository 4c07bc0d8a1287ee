"""The findings of a run: a row for each case, for JSON lines, tables and the HTML report, and how the run ended."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar

from aclgrad.errors import ConnectionLostError, DeviceLostError, NotAuthenticatedError, ServerDrainingError, TlsError
from aclgrad.exit_codes import ExitCode

if TYPE_CHECKING:
    from aclgrad.descriptions.status import ServerStatus
    from aclgrad.judge.bundles import JudgedProgram

AnyRow = TypeVar("AnyRow")
Key = TypeVar("Key")


class Verdict(StrEnum):
    """The verdict of a row."""

    PASSED = "passed"
    FAILED = "failed"
    NOTED = "noted"
    """Worth knowing, but not promised by the server."""
    SKIPPED = "skipped"
    """Not compared; the message says why."""


WORST_FIRST: Final = (Verdict.FAILED, Verdict.NOTED, Verdict.PASSED, Verdict.SKIPPED)


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Returns the worst of at least one verdict."""
    return min(verdicts, key=WORST_FIRST.index)


def by_key(rows: Iterable[AnyRow], key: Callable[[AnyRow], Key]) -> dict[Key, list[AnyRow]]:
    """Returns the rows grouped by key, in the order of the keys' first occurrence."""
    groups: dict[Key, list[AnyRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def error_of(figure: float | None) -> float:
    """Returns an error for sorting: NaN exceeds all others."""
    return math.inf if figure is None or math.isnan(figure) else figure


@dataclass(frozen=True, slots=True)
class Element:
    """A wrong element of a gradient, and the right value; for a complex one the real part."""

    index: tuple[int, ...]
    computed: float
    expected: float

    @property
    def ratio(self) -> float:
        """The computed value over the expected one; not finite if one of them is not, or if 0 was expected."""
        return self.computed / self.expected if self.expected else math.copysign(math.inf, self.computed)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one task. Figures have their unit in their names; None means not finite.

    `worst` has the elements furthest outside, the worst first. `judged` is the call or program for a bundle; rows do
    not keep it.
    """

    verdict: Verdict
    message: str = ""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    worst: tuple[Element, ...] = ()
    judged: "JudgedProgram | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Origin:
    """The server that a row is about."""

    target: str
    product: str
    library: str
    runtime_version: str

    @classmethod
    def of(cls, target: str, status: "ServerStatus") -> Self:
        return cls(target, status.product, status.library, status.runtime_version)


@dataclass(frozen=True, slots=True)
class Task:
    """One case to judge; `judge` makes its calls."""

    origin: Origin
    check: str
    operator: str
    dtype: str
    shape: tuple[int, ...]
    case: str
    judge: Callable[[], Finding]


@dataclass(frozen=True, slots=True)
class Row:
    """One task with its finding. `shape` is the gradient's, or the first one's of several."""

    origin: Origin
    check: str
    operator: str
    dtype: str
    shape: tuple[int, ...]
    case: str
    verdict: Verdict
    message: str
    figures: Mapping[str, float | None]
    seconds: float
    worst: tuple[Element, ...] = ()

    @classmethod
    def of(cls, task: Task, finding: Finding, seconds: float) -> Self:
        told = {name: getattr(task, name) for name in ("origin", "check", "operator", "dtype", "shape", "case")}
        figures = {key: _finite(value) for key, value in finding.figures.items()}
        judged: dict[str, Any] = {"verdict": finding.verdict, "message": finding.message, "worst": finding.worst}
        return cls(**told, **judged, figures=figures, seconds=seconds)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def to_json(self) -> dict[str, Any]:
        """Returns the row as a flat object, its figures in an object of their own."""
        fields = asdict(self)
        # JSON has only finite numbers.
        worst = [{"index": each.index, **{n: repr(getattr(each, n)) for n in _VALUES}} for each in self.worst]
        return {**fields.pop("origin"), **fields, "seconds": round(self.seconds, 4), "worst": worst}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Raises KeyError or ValueError if the object is not a row."""
        given = {key: fields[key] for key in _FIELDS}
        origin = Origin(**{key: fields[key] for key in _ORIGIN_FIELDS})
        # Files of earlier versions lack the elements.
        worst = [Element(tuple(each["index"]), *(float(each[n]) for n in _VALUES)) for each in fields.get("worst", ())]
        read: dict[str, Any] = {
            "shape": tuple(given["shape"]),
            "verdict": Verdict(given["verdict"]),
            "worst": tuple(worst),
        }
        return cls(origin, **given | read)


_VALUES: Final = ("computed", "expected")
_ORIGIN_FIELDS: Final = ("target", "product", "library", "runtime_version")
_FIELDS: Final = ("check", "operator", "dtype", "shape", "case", "verdict", "message", "figures", "seconds")


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


GONE: Final = (ConnectionLostError, DeviceLostError, NotAuthenticatedError, ServerDrainingError, TlsError)
"""Errors that end a run, because no other call would succeed."""


class End(StrEnum):
    """How a run ended; unless `complete`, its report is partial."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    SERVER_GONE = "server gone"


EXIT_CODES: Final = {End.INTERRUPTED: ExitCode.INTERRUPTED, End.SERVER_GONE: ExitCode.SERVER}


SAFE, NOT_SAFE, NOT_COMPARED = "safe", "not safe", "not compared"


@dataclass(frozen=True, slots=True)
class SwitchFinding:
    """Whether a switch of the server may be on, and why; SAFE only after a complete run without a difference."""

    switch: str
    verdict: str
    why: str


@dataclass(slots=True)
class Report:
    """The rows so far, and the conclusions.

    `servers` describes two compared servers, by their names in the rows.
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
        """How the command ends that reports this."""
        if self.end in EXIT_CODES:
            return EXIT_CODES[self.end]
        if self.count(Verdict.FAILED):
            return ExitCode.WRONG
        return ExitCode.WELL if self.count(Verdict.PASSED) or self.count(Verdict.NOTED) else ExitCode.UNUSABLE

    def told(self, notes: Sequence[str] = ()) -> dict[str, object]:
        """Returns what `--json` prints."""
        return {**self.summary(), "notes": list(notes), "rows": [row.to_json() for row in self.rows]}

    def summary(self) -> dict[str, object]:
        """Returns the content of the last line of a file of rows."""
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
    """Returns the rows in a reader's order: failed ones first, by their share of the limit."""

    def rank(row: Row) -> tuple[int, float]:
        error = row.figures.get("error_of_limit")
        # An error without a finite share of its limit exceeds all others.
        return WORST_FIRST.index(row.verdict), -(math.inf if error is None and row.worst else error or 0.0)

    return sorted(rows, key=rank)


def names_of(rows: Sequence[Row]) -> str:
    """Returns the operators of the rows, or the checks of rows without an operator."""
    return ", ".join(sorted({row.operator or row.check for row in rows}))


def write_line(file: TextIO, fields: object) -> None:
    """Writes one object as a line at once, so that an interrupted run leaves whole lines."""
    file.write(json.dumps(fields, allow_nan=False) + "\n")
    file.flush()


def read_rows(path: Path, row_of: Callable[[Mapping[str, Any]], AnyRow], remedy: str) -> list[AnyRow]:
    """Returns the rows of a file of JSON lines; raises ValueError, with the remedy, if it is not one."""
    rows = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                fields = json.loads(line)
                if "summary" not in fields:
                    rows.append(row_of(fields))
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
                raise ValueError(f"line {number} of {path} is not a row: {error!r}; {remedy}") from error
    return rows
