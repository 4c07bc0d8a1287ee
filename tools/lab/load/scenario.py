"""A scenario as its file tells it: which calls, how many at once, for how long, and what has to hold of them."""

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

FOLDER: Final = Path(__file__).parent / "scenarios"
SETTLE_S: Final = 1.0
"""What begins in this time of a stage connects, warms up or still belongs to the stage before: it is not counted."""
LEAST_SECONDS: Final = 2.5

Figure = Literal[
    "calls_per_s",
    "mb_per_s",
    "p50_ms",
    "p99_ms",
    "error_share",
    "retryable_share",
    "cpu_ms",
    "calls_per_core_s",
    "peak_mb",
]


@dataclass(frozen=True, slots=True)
class Stage:
    """So many callers of each call at once, for so many seconds."""

    name: str
    seconds: float
    callers: dict[str, int]


@dataclass(frozen=True, slots=True)
class Objective:
    """A bound on one figure of one call in one stage, or on its ratio to that of another call or stage."""

    stage: str
    call: str
    figure: Figure
    at_least: float | None = None
    at_most: float | None = None
    beside_stage: str = ""
    beside_call: str = ""

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"the objective on {self.figure} of {self.call} needs one of at_least and at_most")


@dataclass(frozen=True, slots=True)
class Scenario:
    """`calls` tells the kind and the options of each call; `errors` are the only ones that may come.

    The stages run one after the other, all of them `rounds` times: ratios are taken within a round.
    """

    name: str
    about: str
    calls: dict[str, dict[str, Any]]
    stages: tuple[Stage, ...]
    objectives: tuple[Objective, ...] = ()
    server: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    device: dict[str, Any] = field(default_factory=dict)
    """Settings of the host library, such as faults."""
    rounds: int = 1
    checked: int = 1
    """Gradients that have to have been compared with their definition, at least."""

    @property
    def schedule(self) -> list[tuple[int, Stage]]:
        return [(turn, stage) for turn in range(self.rounds) for stage in self.stages]

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for _, stage in self.schedule)

    def scaled(self, factor: float) -> Self:
        """Returns the scenario with stages of `factor` times their length, but long enough to tell something."""
        stages = tuple(replace(stage, seconds=max(LEAST_SECONDS, stage.seconds * factor)) for stage in self.stages)
        return replace(self, stages=stages)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name: str) -> Scenario:
    """Returns the scenario of this name; raises ValueError for a file that does not fit together."""
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    stages = tuple(stage for each in data.pop("stages") for stage in _stages(**each))
    objectives = tuple(Objective(**each) for each in data.pop("objectives", ()))
    lists = {key: tuple(data.pop(key)) for key in ("server", "errors") if key in data}
    scenario = Scenario(name, stages=stages, objectives=objectives, **lists, **data)
    known = {stage.name: stage for stage in stages}
    for stage in stages:
        _require(name, stage.callers, scenario.calls)
    for objective in objectives:
        for stage_name, call in ((objective.stage, objective.call), _beside(objective)):
            _require(name, [stage_name], known)
            _require(name, [call], known[stage_name].callers)
    return scenario


def _beside(objective: Objective) -> tuple[str, str]:
    return objective.beside_stage or objective.stage, objective.beside_call or objective.call


def _require(scenario: str, wanted: Any, known: Any) -> None:
    missing = [each for each in wanted if each not in known]
    if missing:
        raise ValueError(f"scenario {scenario}: {missing[0]!r} is none of {', '.join(known)}")


def _stages(name: str, seconds: float, callers: dict[str, int | list[int]]) -> list[Stage]:
    """Returns the stage, or one for each number where the callers of a call are a list: a ramp."""
    steps = {len(count) for count in callers.values() if isinstance(count, list)}
    if not steps:
        return [Stage(name, seconds, {call: int(count) for call, count in callers.items()})]  # type: ignore[arg-type]
    (length,) = steps
    ramp = {call: count if isinstance(count, list) else [count] * length for call, count in callers.items()}
    stages = [{call: counts[step] for call, counts in ramp.items()} for step in range(length)]
    return [Stage(f"{name} {sum(stage.values())}", seconds, stage) for stage in stages]
