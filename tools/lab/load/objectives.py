"""Whether a run kept its objectives: those of the scenario's file, and those that hold for every scenario."""

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from tools.lab.load.figures import Row
from tools.lab.load.scenario import Objective, Scenario


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario and what came of it."""

    scenario: Scenario
    rows: tuple[Row, ...]
    errors: Mapping[str, int]
    compared: int
    log: str
    """What the server wrote that is worth a warning."""

    def figure(self, name: str, stage: str, call: str) -> list[float]:
        """Returns the figure in each round."""
        return [getattr(row, name) for row in self.rows if (row.stage, row.call) == (stage, call)]


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective and what was measured."""

    told: str
    value: str
    passed: bool


def judge(run: Run) -> list[Judged]:
    return [*_always(run), *(_judge(run, objective) for objective in run.scenario.objectives)]


def _always(run: Run) -> Iterator[Judged]:
    foreign = {name: count for name, count in run.errors.items() if name not in run.scenario.errors}
    allowed = ", ".join(run.scenario.errors) or "none"
    yield Judged(f"errors other than {allowed}", str(foreign or "none"), not foreign)
    least = run.scenario.checked
    yield Judged(f"gradients equal to their definition, at least {least}", str(run.compared), run.compared >= least)
    planned = {(stage.name, call) for stage in run.scenario.stages for call in stage.callers}
    answered = {(row.stage, row.call) for row in run.rows if row.calls}
    silent = [f"{stage}: {call}" for stage, call in sorted(planned - answered)]
    yield Judged("calls that were never answered", ", ".join(silent) or "none", not silent)
    yield Judged("warnings in the server's log", run.log.strip()[:300] or "none", not run.log.strip())


def _judge(run: Run, objective: Objective) -> Judged:
    values = run.figure(objective.figure, objective.stage, objective.call)
    told = f"{objective.figure} of {objective.call}, {objective.stage}"
    if objective.beside_stage or objective.beside_call:
        stage, call = objective.beside_stage or objective.stage, objective.beside_call or objective.call
        others = run.figure(objective.figure, stage, call)
        pairs = zip_longest(values, others, fillvalue=math.nan)
        # Within a round: what slows the machine slows both.
        values = [value / other if other else math.nan for value, other in pairs]
        told += f", over that of {call}, {stage}"
    # A round without the figure keeps no bound, and a median would pass it by.
    is_measured = bool(values) and not any(map(math.isnan, values))
    value = statistics.median(values) if is_measured else math.nan
    if objective.at_least is not None:
        return Judged(f"{told}: at least {objective.at_least:g}", f"{value:.3g}", value >= objective.at_least)
    return Judged(f"{told}: at most {objective.at_most:g}", f"{value:.3g}", value <= (objective.at_most or 0.0))
