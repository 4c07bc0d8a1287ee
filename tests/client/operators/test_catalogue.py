"""The operator table holds together: every row is complete, and its cases are legal by its own rules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.describe import describe_operator
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import AttributeKind, AttributeSpec, OperatorSpec, operator_table
from aclgrad.products import Product, product_of_soc
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.wire.values import attribute_message

ROOT = Path(__file__).resolve().parents[3]
HEADERS = ROOT / "native/include/aclnnop"
SPECS = list(OPERATORS.values())
GOOD = OPERATORS["adaptive_avg_pool2d_backward"]
PRODUCTS = [(spec, product) for spec in SPECS for product in spec.products]
FAST = (Product.ATLAS_A2, Product.ATLAS_INFERENCE)


def test_specs_read_well() -> None:
    declared = "".join(header.read_text() for header in HEADERS.glob("*.h"))
    for spec in SPECS:
        assert OPERATORS[spec.name] is spec
        summaries = [each.summary for each in (spec, *spec.inputs, *spec.attributes)]
        for summary in (*summaries, *(each.rule for each in spec.outputs)):
            assert summary.endswith(".")
        assert spec.products
        assert f"{spec.symbol}(" in declared
        assert f"{spec.symbol}GetWorkspaceSize(" in declared


@pytest.mark.parametrize(
    "product", [each if each in FAST else pytest.param(each, marks=pytest.mark.slow) for each in Product]
)
def test_cases_are_legal(product: Product) -> None:
    for typed in typed_cases(product):
        assert_legal(typed, product)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@given(data=st.data())
@settings(max_examples=5)
def test_drawn_case_is_legal(spec: OperatorSpec, data: st.DataObject) -> None:
    drawn = samples_of(spec.name).draw(lambda least, most: data.draw(st.integers(least, most)))
    for dtype in drawn.only or spec.leading_input.dtypes[Product.ATLAS_A2]:
        assert_legal(TypedCase(spec, drawn, dtype), Product.ATLAS_A2)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_timed_cases_are_legal_and_grow(spec: OperatorSpec) -> None:
    sizes = []
    for name, case in samples_of(spec.name).timed.items():
        typed = TypedCase(spec, case, "float32")
        sizes.append(sum(each.size_bytes for each in (*typed.arguments.inputs.values(), *typed.outputs.values())))
        assert list(spec.check(typed.arguments, Product.ATLAS_A2)) == []
        if name == next(iter(samples_of(spec.name).timed)):
            assert_legal(typed, Product.ATLAS_A2)
    assert sizes == sorted(set(sizes))


def assert_legal(typed: TypedCase, product: Product) -> None:
    spec, arguments = typed.spec, typed.arguments
    given = {name: TensorType(DTYPES[array.dtype.name], array.shape) for name, array in typed.arrays().items()}
    assert given == arguments.inputs
    inputs = spec.inputs_of(given)
    assert list(given) == [each.name for each in inputs if each.name in given or not each.is_optional]
    assert all(given[each.name].rank in each.ranks for each in inputs if each.name in given)
    assert set(arguments.attributes) == {each.name for each in spec.attributes}
    assert [violation for each in spec.attributes for violation in each.check(arguments.attributes[each.name])] == []
    assert list(spec.check(arguments, product)) == []
    assert all(size >= 0 for type in typed.outputs.values() for size in type.shape)


def test_case_has_the_same_arrays_at_every_call() -> None:
    typed = next(typed_cases(Product.ATLAS_A2))
    for first, second in zip(typed.arrays().values(), typed.arrays().values(), strict=True):
        np.testing.assert_array_equal(first, second)
        assert first.std() > 0


def test_descriptions_say_what_the_specs_say() -> None:
    for spec, product in PRODUCTS:
        described = describe_operator(spec, product)
        asked = describe_operator(spec, product, shape_only=False)
        assert not any(each.shape_only or each.needed_for for each in asked.inputs)
        assert (described.name, described.symbol, described.summary) == (spec.name, spec.symbol, spec.summary)
        for told, each in zip(described.inputs, spec.inputs, strict=True):
            assert (told.name, tuple(told.ranks), told.summary) == (each.name, each.ranks, each.summary)
            assert [DTYPES[name].wire for name in each.dtypes[product]] == list(told.data_types)
            assert told.shape_only == (each.unread_on is not None and product in each.unread_on)
            assert tuple(told.needed_for) == each.of_outputs
        for told, each in zip(described.attributes, spec.attributes, strict=True):
            assert (told.name, told.summary, tuple(told.lengths)) == (each.name, each.summary, each.lengths)
            assert told.HasField("default_value") == (each.default is not None)
            assert each.default is None or told.default_value == attribute_message(each.name, each.default)
        assert [told.name for told in described.outputs] == [each.name for each in spec.outputs]


SOC_NAMES = {
    "Ascend910B1": Product.ATLAS_A2,
    "Ascend910B4-1": Product.ATLAS_A2,
    "Ascend910B": Product.ATLAS_TRAINING,
    "Ascend910ProA": Product.ATLAS_TRAINING,
    "Ascend910_9391": Product.ATLAS_A3,
    "Ascend310P3": Product.ATLAS_INFERENCE,
    "Ascend310B4": Product.ATLAS_200I_A2,
    "Ascend950PR_9599": Product.ASCEND_950,
    "Ascend910B9": None,
    "Radeon": None,
    "": None,
}


def test_soc_names_have_their_products() -> None:
    assert {name: product_of_soc(name) for name in SOC_NAMES} == SOC_NAMES


def test_a_name_or_symbol_is_used_once() -> None:
    with pytest.raises(ValueError, match=f"two operators have the name {GOOD.name}; change one of them"):
        operator_table(GOOD, replace(GOOD, symbol="aclnnOther"))
    with pytest.raises(ValueError, match=f"two operators have the symbol {GOOD.symbol}; change one of them"):
        operator_table(GOOD, replace(GOOD, name="other"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"inputs": (*GOOD.inputs, GOOD.inputs[0])}, "grad_output is the name of two inputs or attributes"),
        (
            {"inputs": (replace(GOOD.inputs[0], dtypes={Product.ATLAS_A2: ("float31",)}),)},
            "input grad_output has the unknown dtype float31",
        ),
        (
            {"attributes": (AttributeSpec("a", "", AttributeKind.INT, default=0, minimum=1),)},
            r"the default of attributes\[a\] is 0; send at least 1",
        ),
    ],
)
def test_a_spec_that_does_not_fit_together_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"operator {GOOD.name}: {told}"):
        replace(GOOD, **changes)


def test_a_number_has_to_be_finite() -> None:
    attribute = AttributeSpec("a", "", AttributeKind.DOUBLE)
    told = [str(each) for value in (float("nan"), float("inf"), 1.5) for each in attribute.check(value)]
    assert told == ["attributes[a] is nan; send a finite number", "attributes[a] is inf; send a finite number"]


def test_a_bound_may_be_given_for_each_value() -> None:
    attribute = AttributeSpec("a", "", AttributeKind.INTS, (2,), minimum=(0, 5), maximum=(3, 9))
    assert list(attribute.check((0, 9))) == []
    told = [str(each) for value in ((4, 5), (0, 4)) for each in attribute.check(value)]
    assert told == ["attributes[a][0] is 4; send at most 3", "attributes[a][1] is 4; send at least 5"]


PYTORCH = {
    "avg_pool2d_backward": {"stride": (), "padding": (0,), "ceil_mode": False, "count_include_pad": True},
    "batch_norm_backward": {"eps": 1e-5},
    "embedding_dense_backward": {"padding_idx": -1, "scale_grad_by_freq": False},
    "gelu_backward_v2": {"approximate": "none"},
    "grid_sampler2d_backward": {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False},
    "leaky_relu_backward": {"negative_slope": 0.01, "self_is_result": False},
    "max_pool2d_with_indices_backward": {"stride": (), "padding": (0,), "dilation": (1,), "ceil_mode": False},
    "roi_align_v2_backward": {"spatial_scale": 1.0, "aligned": False},
    "swi_glu_grad": {"dim": -1},
}


@pytest.mark.parametrize("name", PYTORCH)
def test_defaults_are_those_of_pytorch(name: str) -> None:
    defaults = OPERATORS[name].defaults
    assert {each: defaults[each] for each in PYTORCH[name]} == PYTORCH[name]
    if name == "grid_sampler2d_backward":
        assert OPERATORS["grid_sampler3d_backward"].defaults == defaults
