"""The findings of a check: one row for each case, the same in JSON lines, tables and the HTML report."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Self


class Verdict(StrEnum):
    """The verdict of a row."""

    PASSED = "passed"
    FAILED = "failed"
    NOTED = "noted"
    """Worth knowing, but nothing that the server promises."""
    SKIPPED = "skipped"
    """Not compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one task. Figures have their unit in their names; one that is not finite is None."""

    verdict: Verdict
    message: str = ""
    figures: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Origin:
    """The server that a row is about."""

    target: str
    product: str
    library: str
    runtime_version: str


@dataclass(frozen=True, slots=True)
class Task:
    """One case to judge; it makes its calls when `judge` is called."""

    origin: Origin
    check: str
    operator: str
    dtype: str
    shape: tuple[int, ...]
    case: str
    judge: Callable[[], Finding]


@dataclass(frozen=True, slots=True)
class Row:
    """One task with its finding. `shape` is that of the gradient, or of the first of several."""

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

    @classmethod
    def of(cls, task: Task, finding: Finding, seconds: float) -> Self:
        told = {name: getattr(task, name) for name in ("origin", "check", "operator", "dtype", "shape", "case")}
        figures = {key: _finite(value) for key, value in finding.figures.items()}
        return cls(**told, verdict=finding.verdict, message=finding.message, figures=figures, seconds=seconds)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def to_json(self) -> dict[str, Any]:
        """Returns the row as a flat object, its figures in an object of their own."""
        fields = asdict(self)
        return {**fields.pop("origin"), **fields, "seconds": round(self.seconds, 4)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Raises KeyError or ValueError for an object that is not a row."""
        given = {key: fields[key] for key in _FIELDS}
        origin = Origin(**{key: fields[key] for key in _ORIGIN_FIELDS})
        return cls(origin, **given | {"shape": tuple(given["shape"]), "verdict": Verdict(given["verdict"])})


_ORIGIN_FIELDS: Final = ("target", "product", "library", "runtime_version")
_FIELDS: Final = ("check", "operator", "dtype", "shape", "case", "verdict", "message", "figures", "seconds")


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
