"""The report about the steps of a training step, and its text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aclgrad.judge.findings.rows import Origin, Row, Verdict, by_key, error_of
from aclgrad.torch.calls import aligned
from aclgrad.torch.step.places import NOWHERE, Place
from aclgrad.units import counted

_MOST_LINES = 12
"""Most lines of wrong outputs; all are in `rows`."""
_NEAREST = 3
"""Number of shown outputs if all are right: those nearest to their limits."""


@dataclass(frozen=True, slots=True)
class StepRow(Row):
    """One output of a step with its finding. `case` is its place in words."""

    step: int = 0
    """Its number among all steps, from 1."""
    output: str = ""
    place: Place = NOWHERE
    """The place in the model of the call, or of the call whose gradient it computes."""

    @property
    def error_of_limit(self) -> float | None:
        """The largest error as a share of its limit; None if not judged or not finite."""
        return self.figures.get("error_of_limit")

    @property
    def title(self) -> str:
        return f"step {self.step} ({self.operator}, output {self.output})"


@dataclass(slots=True)
class ComparedStep:
    """The steps of a training step, each judged on its own recorded inputs; `compare_step` returns it.

    Printed, it begins with the first step that is wrong, and its place in the model.
    """

    origin: Origin
    step_count: int
    """All operators that the server computes in the training step."""
    local_count: int
    """Functions that PyTorch runs here, between programs or because no parameter is in them: they are not judged."""
    unserved_count: int
    """The number of those without an operator."""
    rows: list[StepRow] = field(default_factory=list)
    """A row for each output that is used, in the order of the steps."""
    run_count: int = 0
    """The runs of programs whose values were judged: more than the programs if values came back in ranges."""
    ended: str = ""
    """Why the steps after the last row were not compared; empty if all were."""

    @property
    def failed(self) -> list[StepRow]:
        """The rows of wrong outputs, in the order of the steps."""
        return [row for row in self.rows if row.verdict is Verdict.FAILED]

    @property
    def first(self) -> StepRow | None:
        """The first wrong output; None if all are right."""
        return next(iter(self.failed), None)

    @property
    def judged_count(self) -> int:
        """The number of steps with a judged output."""
        return len({row.step for row in self.rows if row.verdict is not Verdict.SKIPPED})

    @property
    def not_judged(self) -> list[StepRow]:
        """The rows of outputs that could not be judged; each has the reason as its message."""
        return [row for row in self.rows if row.verdict is Verdict.SKIPPED]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self._head()
        yield from self._table()
        compared = self.rows[-1].step if self.rows else 0
        if compared < self.step_count:
            yield f"{counted(self.step_count - compared, 'step')} behind step {compared} not compared: {self.ended}"
        for (operator, reason), rows in by_key(self.not_judged, lambda row: (row.operator, row.message)).items():
            yield f"{counted(len(rows), 'output')} of {operator} not judged, first in step {rows[0].step}: {reason}"
        if self.local_count:
            unserved = f", {self.unserved_count} of them without an operator" if self.unserved_count else ""
            yield f"not judged, because PyTorch runs them here: {counted(self.local_count, 'function')}{unserved}"

    def _head(self) -> str:
        first, judged = self.first, self.judged_count
        if first is not None:
            where = f"step {first.step} of {self.step_count} ({first.operator}, output {first.output})"
            return f"{where} is the first that is wrong, in {first.place}: {first.message}"
        if judged == self.step_count:
            return f"all {counted(judged, 'step')} are right"
        return f"the {judged} of {counted(self.step_count, 'step')} that were judged are right"

    def _table(self) -> Iterator[str]:
        rows: Sequence[StepRow] = self.failed
        if not rows:
            judged = [row for row in self.rows if row.verdict is not Verdict.SKIPPED]
            rows = sorted(judged, key=lambda row: -error_of(row.error_of_limit))[:_NEAREST]
        if not rows:
            return
        lines = [("step", "verdict", "of limit", "operator", "output", "place")]
        for row in rows[:_MOST_LINES]:
            share = "" if row.error_of_limit is None else f"{row.error_of_limit:.3g}"
            lines.append((str(row.step), row.verdict, share, row.operator, row.output, str(row.place)))
        yield from aligned(lines)
        if len(rows) > _MOST_LINES:
            yield f"and {len(rows) - _MOST_LINES} more wrong outputs"
