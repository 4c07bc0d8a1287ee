"""Models that are known by name, with one operator that is wrong by 1 %: it is named, and no other one is."""

import random

import pytest

import aclgrad
from aclgrad.testing import serve
from aclgrad.torch import compare_step
from aclgrad.torch.step.called import Batch
from aclgrad.torch.step.remote_step import remote_step
from tests.judge.torch.steps.planting import plant
from tools.models import MODELS
from tools.serving import Server

SMALL = True


@pytest.mark.parametrize("name", MODELS)
def test_all_steps_of_a_model_are_right_on_the_host_library(name: str, server: Server) -> None:
    known = MODELS[name]
    with aclgrad.Client(server.address) as client:
        found = compare_step(known.make(SMALL), known.loss, client, *known.batch(SMALL, 2))
    assert str(found).startswith(f"all {found.step_count} steps are right"), str(found)
    assert found.judged_count == found.step_count
    assert {row.message for row in found.not_judged} <= {
        "it stays on the device; what reads it is judged with the definition's"
    }


@pytest.mark.parametrize("name", MODELS)
def test_one_wrong_operator_of_a_model_is_named_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known, drawn = MODELS[name], random.Random(name)
    model, batch = known.make(SMALL), known.batch(SMALL, 2)
    with serve() as server, aclgrad.Client(server.target) as client:
        plan, _ = remote_step(model, known.loss, client).prepared(Batch(batch, {}), None)
        (part,) = (each for each in plan.parts if each.wanted)
        # 1 % more than 0 is right.
        candidates = [at for at, each in enumerate(part.program.steps) if each.operator != "inplace_fill_scalar"]
        number = drawn.choice(candidates)
        plant(monkeypatch, lambda at, _: at == number)
        found = compare_step(model, known.loss, client, *batch, whole=True)
    wrong = part.program.steps[number]
    assert found.first is not None
    assert (found.first.step, found.first.operator, found.first.case) == (number + 1, wrong.operator, wrong.place)
    assert str(found).startswith(
        f"step {number + 1} of {len(part.program)} ({wrong.operator}, output {found.first.output}) is the first that "
        f"is wrong, in {wrong.place}: "
    )
    # The others are right on the inputs that they had, so this is the proof of a right server as well.
    assert {row.step for row in found.failed} == {number + 1}
    assert found.judged_count == found.step_count
