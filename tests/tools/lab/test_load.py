"""The load test can fail: a wrong gradient, a foreign error, a figure over its bound or one that was not measured."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.cases import first_cases
from tools.lab import gradients
from tools.lab.gradients import Sampler, of_all_operators, of_size
from tools.lab.known import WrongGradientError
from tools.lab.load import scenario
from tools.lab.load.figures import Row
from tools.lab.load.objectives import Judged, Run, judge
from tools.lab.load.scenario import Objective, Scenario, Stage

STAGES = (Stage("echo", 5, {"echo": 4}), Stage("ours", 5, {"unary": 4}))
CALLS = {"echo": {"kind": "echo"}, "unary": {"kind": "unary"}}


def row(stage: str, call: str, turn: int = 0, **figures: Any) -> Row:
    told: dict[str, Any] = dict.fromkeys(Row.__dataclass_fields__, 1.0)
    return Row(**told | {"turn": turn, "stage": stage, "call": call, "calls": 10, "errors": {}} | figures)


GOOD = [row("echo", "echo"), row("ours", "unary")]


def failures(*objectives: Objective, rows: list[Row] = GOOD, **told: Any) -> list[Judged]:
    chosen = Scenario("name", "about", CALLS, STAGES, objectives, errors=("SERVER_BUSY",), checked=5)
    run = Run(chosen, tuple(rows), **{"errors": {"SERVER_BUSY": 3}, "compared": 5, "log": ""} | told)
    return [each for each in judge(run) if not each.passed]


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"errors": {"SERVER_BUSY": 1, "INTERNAL_ERROR": 1}}, "INTERNAL_ERROR"),
        ({"errors": {"wrong gradient: off by 1": 1}}, "wrong gradient"),
        ({"compared": 4}, "4"),
        ({"log": "something failed"}, "something failed"),
        ({"rows": [row("echo", "echo"), row("ours", "unary", calls=0)]}, "ours: unary"),
        ({"rows": []}, "echo: echo, ours: unary"),
    ],
)
def test_what_fails_every_scenario(told: dict[str, Any], named: str) -> None:
    assert failures(Objective("ours", "unary", "p99_ms", at_most=1.0)) == []
    (failed,) = failures(**told)
    assert named in failed.value


@pytest.mark.parametrize(("bound", "fails"), [({"at_least": 0.7}, True), ({"at_least": 0.6}, False)])
def test_a_ratio_is_the_median_of_those_within_the_rounds(bound: dict[str, float], fails: bool) -> None:
    """1000, 100 and 10 beside 650, 65 and 1: a machine that becomes slower slows both."""
    rows = [row("echo", "echo", turn, calls_per_s=rate) for turn, rate in enumerate((1000, 100, 10))]
    rows += [row("ours", "unary", turn, calls_per_s=rate) for turn, rate in enumerate((650, 65, 1))]
    objective = Objective("ours", "unary", "calls_per_s", beside_stage="echo", beside_call="echo", **bound)
    assert bool(failures(objective, rows=rows)) == fails


@pytest.mark.parametrize("bound", [{"at_least": 0.0}, {"at_most": 1e9}])
def test_a_figure_that_was_not_measured_in_each_round_keeps_no_bound(bound: dict[str, float]) -> None:
    objective = Objective("ours", "unary", "p99_ms", **bound)
    rounds = [row("ours", "unary", turn, p99_ms=value) for turn, value in enumerate((math.nan, 1.0, 2.0))]
    assert failures(objective, rows=[row("echo", "echo"), *rounds])
    beside = replace(objective, beside_stage="echo", beside_call="echo")
    assert failures(beside, rows=[row("echo", "echo"), *(row("ours", "unary", turn) for turn in range(3))])


def test_only_the_gradient_of_the_definition_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "typed_cases", first_cases)
    for known in (of_size("16 KB"), *of_all_operators.__wrapped__()):
        first = next(iter(known.inputs.values()))
        if {each.dtype.kind for each in (*known.truths, first)} != {"f"}:
            continue  # a hundredth more is no other integer or bool
        sampler = Sampler(share=1.0, seed=0)
        right = tuple(truth.astype(next(iter(known.inputs.values())).dtype) for truth in known.truths)
        sampler.compare(known, right)
        assert sampler.compared == 1
        for position, each in enumerate(right):
            largest = np.unravel_index(np.abs(each).argmax(), each.shape)
            for wrong in {each[largest] * 1.01, 0, np.nan} - {each[largest]}:
                spoiled = each.copy()
                spoiled[largest] = wrong
                with pytest.raises(WrongGradientError):
                    sampler.compare(known, (*right[:position], spoiled, *right[position + 1 :]))
            with pytest.raises(WrongGradientError, match="shape"):
                sampler.compare(known, (*right[:position], each[None], *right[position + 1 :]))


@pytest.mark.parametrize("name", scenario.names())
def test_every_scenario_fits_together_and_nothing_measured_fails_it(name: str) -> None:
    chosen = scenario.read(name)
    assert {call for stage in chosen.stages for call in stage.callers} == set(chosen.calls)
    assert 0 < chosen.scaled(0.1).seconds <= chosen.seconds < 120
    assert chosen.objectives
    failed = [each.told for each in judge(Run(chosen, (), {}, chosen.checked, "")) if not each.passed]
    assert len(failed) == 1 + len(chosen.objectives)


def test_an_objective_on_something_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (scenario.FOLDER / "steady.toml").read_text()
    (tmp_path / "broken.toml").write_text(text.replace('beside_stage = "echo, small"', 'beside_stage = "echo, tiny"'))
    monkeypatch.setattr(scenario, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="echo, tiny"):
        scenario.read("broken")
    with pytest.raises(ValueError, match="at_least"):
        replace(Objective("ours", "unary", "p99_ms", at_most=1.0), at_least=1.0)
