"""Convolutions of known networks: a server that is wrong in a part of them is found, by samples and by layers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.judge.check import attentions, composites, programs, target
from aclgrad.judge.check.convolutions import LAYERS, convolution_programs
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from aclgrad.testing import _compute, serve
from tests.judge.checking import Checked, check

OPERATOR = "convolution_backward"
Gradients = tuple[np.ndarray, ...]
Define = Callable[[dict[str, Any], dict[str, Any]], Gradients]


@pytest.fixture(autouse=True)
def _only_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_convolutions(product: Product, **options: Any) -> Iterator[TypedCase]:
        return (each for each in typed_cases(product, **options) if each.spec.name == OPERATOR)

    monkeypatch.setattr(target, "typed_cases", of_convolutions)
    monkeypatch.setattr(programs, "_PROGRAMS", {True: 0})
    monkeypatch.setattr(composites, "CASES", ())
    monkeypatch.setattr(attentions, "LAYERS", ())


def without_a_tap(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """The last tap never reaches the gradient of the input."""
    weight = np.array(inputs["weight"])
    weight[(..., *[-1] * (weight.ndim - 2))] = 0
    return define({**inputs, "weight": weight}, attributes)[0], *define(inputs, attributes)[1:]


def without_a_border(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """The sums of the weight leave out the last windows along the last axis."""
    grad_output = np.array(inputs["grad_output"])
    grad_output[..., -1] = 0
    of_input, _, of_bias = define(inputs, attributes)
    return of_input, define({**inputs, "grad_output": grad_output}, attributes)[1], of_bias


def of_another_phase(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """With a stride of 2, odd cells along the last axis get what belongs to their neighbours."""
    of_input, *others = define(inputs, attributes)
    if attributes["stride"][-1] == 2 and not attributes["transposed"] and of_input.shape[-1] > 1:
        of_input = of_input.copy()
        odd = of_input[..., 1::2]
        odd[...] = of_input[..., ::2][..., : odd.shape[-1]]
    return of_input, *others


def of_the_first_group(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """The last group has the weights of the first."""
    weight, groups = np.array(inputs["weight"]), attributes["groups"]
    if groups > 1:
        each = len(weight) // groups
        weight[-each:] = weight[:each]
    return define({**inputs, "weight": weight}, attributes)[0], *define(inputs, attributes)[1:]


WRONG = {
    without_a_tap: lambda layer: True,
    without_a_border: lambda layer: True,
    of_another_phase: lambda layer: layer.stride[-1] == 2 and not layer.transposed,
    of_the_first_group: lambda layer: layer.groups > 1,
}
"""The layers that each planted kernel computes wrongly."""


def checked_with(fault: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, *flags: str) -> Checked:
    right = _compute.define

    def define(name: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> Any:
        if name != OPERATOR or not all(isinstance(each, np.ndarray) for each in inputs.values()):
            return right(name, inputs, attributes)
        return fault(lambda given, options: right(OPERATOR, given, options), inputs, attributes)

    monkeypatch.setattr(_compute, "define", define)
    with serve() as server:
        return check(folder, server.target, *flags)


@pytest.mark.parametrize("fault", WRONG, ids=lambda each: each.__name__)
def test_a_kernel_that_is_wrong_in_a_part_fails_the_layers_that_have_it(
    fault: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checked = checked_with(fault, monkeypatch, tmp_path, "--program")
    rows = [row for row in checked.rows if row["check"] == "program"]
    failed = {(row["dtype"], row["case"]) for row in rows if row["verdict"] == "failed"}
    wrong = [layer.name for layer in LAYERS if WRONG[fault](layer)]
    assert failed == {(dtype, name) for dtype in ("float32", "float16", "bfloat16") for name in wrong}
    assert {row["verdict"] for row in rows} <= {"passed", "failed"}


@pytest.mark.parametrize("fault", WRONG, ids=lambda each: each.__name__)
def test_a_kernel_that_is_wrong_in_a_part_fails_samples(
    fault: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checked = checked_with(fault, monkeypatch, tmp_path, "--only", "accuracy")
    failed = {(row["check"], row["operator"]) for row in checked.rows if row["verdict"] == "failed"}
    assert (checked.exit_code, failed) == (1, {("accuracy", OPERATOR)})


def test_layers_of_three_axes_are_left_out_where_the_product_has_none() -> None:
    names = {
        product: [name for name, _ in convolution_programs("float32", product, is_quick=True)] for product in Product
    }
    assert names[Product.ATLAS_A2] == [layer.name for layer in LAYERS]
    assert set(names[Product.ATLAS_A2]) - set(names[Product.ATLAS_INFERENCE]) == {
        layer.name for layer in LAYERS if len(layer.kernel) == 3
    }
