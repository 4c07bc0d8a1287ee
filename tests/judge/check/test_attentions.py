"""Attention of known models: a server that is wrong in a part of it is found, by samples and by layers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.judge.check import attentions, composites, convolutions, programs, target
from aclgrad.judge.check.attentions import LAYERS, OPERATORS, attention_programs
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from aclgrad.testing import _compute, serve
from tests.judge.checking import Checked, check

Gradients = tuple[np.ndarray, ...]
Define = Callable[[dict[str, Any], dict[str, Any]], Gradients]
DTYPES = ("float32", "bfloat16")


@pytest.fixture(autouse=True)
def _only_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_attention(product: Product, **options: Any) -> Iterator[TypedCase]:
        return (each for each in typed_cases(product, **options) if each.spec.name in OPERATORS)

    monkeypatch.setattr(target, "typed_cases", of_attention)
    monkeypatch.setattr(programs, "_PROGRAMS", {True: 0})
    monkeypatch.setattr(programs, "_DTYPES", DTYPES)
    monkeypatch.setattr(attentions, "_FEWER", 24)
    monkeypatch.setattr(composites, "CASES", ())
    monkeypatch.setattr(convolutions, "LAYERS", ())


def _values_off(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """The gradient of value is 2 % too large."""
    of_query, of_key, of_value = define(inputs, attributes)
    return of_query, of_key, of_value * 1.02


def _without_results(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """Gradients of scores lack the sum of gradients times results."""
    return define({**inputs, "attention_in": np.zeros_like(inputs["attention_in"])}, attributes)


def _from_the_other_end(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """Causal masks count from the last query and key where they should count from the first, and the reverse."""
    mode = attributes["sparse_mode"]
    return define(inputs, {**attributes, "sparse_mode": {2: 3, 3: 2}.get(mode, mode)})


def _of_the_first_keys(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    """The last keys get no gradient: a block of the kernel that is left out."""
    of_query, of_key, of_value = define(inputs, attributes)
    of_key = np.array(of_key)
    axis = attributes["input_layout"].index("S")
    last = [slice(None)] * of_key.ndim
    last[axis] = slice(of_key.shape[axis] // 2, None)
    of_key[tuple(last)] = 0
    return of_query, of_key, of_value


def _without_the_mask(define: Define, inputs: dict[str, Any], attributes: dict[str, Any]) -> Gradients:
    return define({name: each for name, each in inputs.items() if name != "atten_mask"}, attributes)


WRONG = {
    _values_off: lambda layer, dtype: dtype == "float32",
    _without_results: lambda layer, dtype: True,
    # Of a few keys, each has large errors of 8 bits.
    _of_the_first_keys: lambda layer, dtype: dtype == "float32" or layer.sizes[4] > 100,
    _from_the_other_end: lambda layer, dtype: layer.mode > 1 and layer.sizes[3] != layer.sizes[4],
    _without_the_mask: lambda layer, dtype: bool(layer.mask),
}
"""The layers that each planted kernel computes wrongly."""


def checked_with(fault: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, *flags: str) -> Checked:
    right = _compute.define

    def define(name: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> Any:
        if name not in OPERATORS or "grad" not in name:
            return right(name, inputs, attributes)
        return fault(lambda given, options: right(name, given, options), inputs, attributes)

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
    expected = {
        (dtype, f"attention: {layer.name}")
        for dtype in DTYPES
        for layer in LAYERS
        if WRONG[fault](layer, dtype) and not (layer.is_long and dtype != "float32")
    }
    assert failed == expected
    assert {row["verdict"] for row in rows} <= {"passed", "failed"}


@pytest.mark.parametrize("fault", WRONG, ids=lambda each: each.__name__)
def test_a_kernel_that_is_wrong_in_a_part_fails_samples(
    fault: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checked = checked_with(fault, monkeypatch, tmp_path, "--only", "accuracy")
    failed = {(row["check"], row["operator"]) for row in checked.rows if row["verdict"] == "failed"}
    assert checked.exit_code == 1
    assert failed <= {("accuracy", f"flash_attention_score_grad{version}") for version in ("", "_v2")}
    assert failed


def test_layers_have_the_sizes_of_training() -> None:
    sizes = {size for layer in LAYERS for size in layer.sizes[3:5]}
    assert {min(sizes), max(sizes)} == {77, 8192}
    assert {layer.sizes[5] for layer in LAYERS} == {64, 80, 96, 128}
    assert {layer.layout for layer in LAYERS} == {"BNSD", "BSND", "BSH", "SBH"}
    assert {layer.mode for layer in LAYERS} == {0, 1, 2, 3}
    first, second = (dict(attention_programs("float32", is_quick=True)) for _ in range(2))
    for name, make in first.items():
        pair = [make(), second[name]()]
        assert [["grad" in step.operator for step in each.steps] for each in pair] == [[False, True]] * 2
        arrays = [[given.array for step in each.steps for given in step.inputs] for each in pair]
        assert all(one is None or np.array_equal(one, other) for one, other in zip(*arrays, strict=True))
