"""`aclgrad operators`, and what both commands do with a wrong target."""

import json

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product

from .conftest import Run

SERVED = sorted(name for name, spec in OPERATORS.items() if Product.ATLAS_A2 in spec.products)


def test_every_operator_is_listed_with_what_it_takes(run: Run) -> None:
    result = run("operators")
    assert result.exit_code == 0
    for name in SERVED:
        assert f"{name} ({OPERATORS[name].symbol})" in result.output
    assert "kernel_size: ints of 1 or 2, required" in result.output
    assert "ceil_mode: bool, False by default" in result.output


def test_json_has_the_fields_of_the_descriptions(run: Run) -> None:
    listed = json.loads(run("operators --json").output)
    assert sorted(each["name"] for each in listed) == SERVED
    spec = OPERATORS["max_pool2d_with_mask_backward"]
    pool = next(each for each in listed if each["name"] == spec.name)
    assert pool["inputs"][0]["dtypes"] == list(spec.inputs[0].dtypes[Product.ATLAS_A2])
    ceil_mode = next(each for each in pool["attributes"] if each["name"] == "ceil_mode")
    assert (ceil_mode["kind"], ceil_mode["default"], ceil_mode["required"]) == ("bool", False, False)


@pytest.mark.parametrize("command", ["operators", "status"])
def test_a_wrong_target_is_exit_code_2(run: Run, command: str) -> None:
    result = run(command, "--target", "nowhere")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
