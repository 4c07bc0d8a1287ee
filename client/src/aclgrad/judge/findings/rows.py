"""The findings of a check: one row for each case, the same in JSON lines, tables and the HTML report."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from aclgrad.judge.bundles import JudgedCall


class Verdict(StrEnum):
    """The verdict of a row."""

    PASSED = "passed"
    FAILED = "failed"
    NOTED = "noted"
    """Worth knowing, but nothing that the server promises."""
    SKIPPED = "skipped"
    """Not compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a gradient that is not right, and what it should be; of a complex one the real part."""

    index: tuple[int, ...]
    computed: float
    expected: float

    @property
    def ratio(self) -> float:
        """What was computed over what was expected; not finite if the one or the other is not, or if 0 was expected."""
        return self.computed / self.expected if self.expected else math.copysign(math.inf, self.computed)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one task. Figures have their unit in their names; one that is not finite is None.

    `worst` has the elements that are furthest outside, the worst first. `call` is the call that was judged, for a
    bundle; rows do not keep it.
    """

    verdict: Verdict
    message: str = ""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    worst: tuple[Element, ...] = ()
    call: "JudgedCall | None" = field(default=None, compare=False, repr=False)


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
        # JSON has no numbers that are not finite.
        worst = [{"index": each.index, **{n: repr(getattr(each, n)) for n in _VALUES}} for each in self.worst]
        return {**fields.pop("origin"), **fields, "seconds": round(self.seconds, 4), "worst": worst}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Raises KeyError or ValueError for an object that is not a row."""
        given = {key: fields[key] for key in _FIELDS}
        origin = Origin(**{key: fields[key] for key in _ORIGIN_FIELDS})
        # Files of earlier versions have no elements.
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
