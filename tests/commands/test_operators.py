"""`aclgrad operators`: a table or one operator, of a server or of the catalogue; and a wrong target."""

import json

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product

from .conftest import Run

SERVED = sorted(name for name, spec in OPERATORS.items() if Product.ATLAS_A2 in spec.products)


def test_a_server_is_asked_if_it_is_named(run: Run) -> None:
    """Each name is in one line with the server's product, which is the only one."""
    result = run("operators", COLUMNS="100")
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert [line[:2] for line in lines if line[0] in OPERATORS] == [[name, "910B"] for name in SERVED]


@pytest.mark.parametrize("columns", ["40", "80"])
def test_nothing_is_cut(run: Run, columns: str) -> None:
    result = run("operators", COLUMNS=columns, ACLGRAD_TARGET="")
    assert "…" not in result.output
    for column, texts in ((0, OPERATORS), (1, Product), (2, ("complex128", "float32"))):
        assert set("".join(texts)) <= set(result.output), column
    assert ("max_pool2d_with_indices_backward " in result.output) is (columns == "80")


def test_without_a_server_every_product_is_told(run: Run) -> None:
    listed = json.loads(run("operators --json", ACLGRAD_TARGET="").output)["operators"]
    assert {(each["name"], each["product"]) for each in listed} == {
        (name, product) for name, spec in OPERATORS.items() for product in spec.products
    }


@pytest.mark.parametrize("target", ["", None])
def test_one_operator_is_described_with_all_that_it_takes(run: Run, target: str | None) -> None:
    result = run("operators avg_pool2d_backward", **({} if target is None else {"ACLGRAD_TARGET": target}))
    assert result.exit_code == 0
    spec = OPERATORS["avg_pool2d_backward"]
    products = "910A, 910B, 910_93, 310P, 950" if target == "" else "910B"
    assert result.output.splitlines()[0] == f"{spec.name} (aclnnAvgPool2dBackward), on {products}"
    for line in (
        spec.summary,
        spec.formula,
        "kernel_size: ints of 1 or 2, at least 1, required",
        "ceil_mode: bool, False by default",
        "divisor_override: int, at least -2147483647, at most 2147483647, 0 by default",
        "returns grad_input: The gradient of `self`, with its shape and dtype.",
        *(each.summary for each in (*spec.inputs, *spec.attributes)),
    ):
        assert f"    {line}\n" in result.output
    (taken,) = (line for line in result.output.splitlines() if line.startswith("    self (parameter `input`): "))
    assert taken.endswith(
        "or its shape on 910B, 910_93, 950" if target == "" else "float32, float16, bfloat16, or its shape"
    )
    assert ("bfloat16 on" in taken, "3 or 4 dimensions; " in taken) == (False, True)


def test_an_unknown_name_is_told_the_right_one_without_a_server(run: Run) -> None:
    result = run("operators max_unpool2d", ACLGRAD_TARGET="")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "max_unpool2d is not known; call one of max_unpool2d_backward" in result.output


def test_json_has_the_fields_of_the_descriptions(run: Run) -> None:
    listed = json.loads(run("operators --json").output)["operators"]
    assert sorted(each["name"] for each in listed) == SERVED
    spec = OPERATORS["max_pool2d_with_mask_backward"]
    (pool,) = json.loads(run(f"operators {spec.name} --json").output)["operators"]
    assert pool in listed
    assert pool["product"] == "910B"
    assert pool["inputs"][0]["dtypes"] == list(spec.leading_input.dtypes[Product.ATLAS_A2])
    ceil_mode = next(each for each in pool["attributes"] if each["name"] == "ceil_mode")
    assert (ceil_mode["kind"], ceil_mode["default"], ceil_mode["required"]) == ("bool", False, False)


@pytest.mark.parametrize("command", ["operators", "status", "doctor"])
def test_a_wrong_target_is_exit_code_2(run: Run, command: str) -> None:
    result = run(command, "--target", "nowhere")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
