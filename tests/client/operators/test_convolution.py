"""Convolution and its gradients: cell by cell, what they refuse, and how far a product may be off."""

from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.convolution.samples import convolution_case as forward_case
from aclgrad.operators.convolution_backward.samples import convolution_case
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.tolerances import tolerance_of

A2, P310, P910A, P950 = Product.ATLAS_A2, Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING, Product.ASCEND_950
SPEC = OPERATORS["convolution_backward"]
SMALL = 6000

Array = np.ndarray[Any, Any]


def cell_by_cell(typed: TypedCase) -> tuple[Array, ...]:
    """Each product by itself, of the cells that a tap brings together."""
    arrays: dict[str, Any] = {name: each.astype(np.float64) for name, each in typed.arrays().items()}
    attributes: dict[str, Any] = typed.attributes
    grad_output, input, weight = arrays["grad_output"], arrays["input"], arrays["weight"]
    grad_input, grad_weight = np.zeros(input.shape), np.zeros(weight.shape)
    transposed, groups, axes = attributes["transposed"], attributes["groups"], input.ndim - 2
    stride, padding, dilation = (np.resize(attributes[each], axes) for each in ("stride", "padding", "dilation"))
    small, big = (input, grad_output) if transposed else (grad_output, input)
    for n, o, *q in np.ndindex(*small.shape):
        group = o // (weight.shape[0] // groups)
        for c, *k in np.ndindex(*weight.shape[1:]):
            place = np.array(q) * stride - padding + np.array(k) * dilation
            if (place < 0).any() or (place >= big.shape[2:]).any():
                continue
            here, there, tap = (n, o, *q), (n, group * weight.shape[1] + c, *place), (o, c, *k)
            one, other = (there, here) if transposed else (here, there)
            grad_input[other] += grad_output[one] * weight[tap]
            grad_weight[tap] += grad_output[one] * input[other]
    return grad_input, grad_weight, grad_output.sum((0, *range(2, grad_output.ndim)))


def small_cases() -> list[TypedCase]:
    found = [each for each in typed_cases(A2, SPEC.name) if each.dtype == "float32"]
    return [each for each in found if SPEC.matrix_operations(each.arguments) <= 100 * SMALL]


@pytest.mark.parametrize("typed", small_cases(), ids=str)
def test_the_definition_gives_what_each_element_is(typed: TypedCase) -> None:
    found = reference.define(SPEC.name, typed.arrays(), typed.case.attributes)
    for each, wanted in zip(found, cell_by_cell(typed), strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-11, atol=1e-11)
        assert each.dtype == np.float64


def test_what_a_shape_does_not_tell_is_no_number() -> None:
    typed = small_cases()[0]
    arrays = typed.arrays()
    whole = reference.define(SPEC.name, arrays, typed.case.attributes)
    for name, unknown in (("input", 1), ("weight", 0)):
        found = reference.define(SPEC.name, {**arrays, name: arrays[name].shape}, typed.case.attributes)
        for position, each in enumerate(found):
            assert np.isnan(each).all() if position == unknown else (each == whole[position]).all()


def problems(product: Product = A2, of: str = "float32", outputs: tuple[str, ...] = (), **changed: Any) -> str:
    """Returns what is wrong with a call that is legal without the changes, which name inputs and attributes."""
    three, transposed = changed.pop("three", False), changed.pop("transposed", False)
    sizes = (7, 8, 9)[: 3 if three else 2]
    typed = TypedCase(
        SPEC,
        convolution_case(
            "legal", (2, 4, *sizes), 6, (3,) * len(sizes), stride=(2,), padding=(1,), groups=2, transposed=transposed
        ),
        of,
    )
    types = {
        name: TensorType(DTYPES[of], changed[name]) if name in changed else type
        for name, type in typed.arguments.inputs.items()
    }
    given = {name: each for name, each in changed.items() if name not in types}
    found = SPEC.check(Arguments(types, {**typed.attributes, **given}, outputs), product)
    return "; ".join(f"{each.field} {each.problem}; {each.remedy}" for each in found)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"grad_output": (2, 6, 4, 5)}, "inputs[grad_output].shape is (2, 6, 4, 5), but the result of"),
        ({"grad_output": (1, 6, 4, 4)}, "inputs[input].shape has a batch of 2, and inputs[grad_output] one of 1"),
        ({"grad_output": (2, 8, 4, 4)}, "inputs[grad_output] has 8 channels"),
        ({"input": (2, 5, 7, 8)}, "inputs[input] has 5 channels in 2 groups; send the channels of one group"),
        ({"input": (2, 4, 7)}, "inputs[input].shape has 3 dimensions, and inputs[grad_output] has 4"),
        ({"weight": (6, 2, 3)}, "inputs[weight].shape has 3 dimensions"),
        ({"weight": (6, 2, 0, 3)}, "without a kernel"),
        ({"weight": (6, 2, 12, 3)}, "inputs[input].shape is (2, 4, 7, 8), which the kernel (12, 3) makes results of"),
        ({"groups": 3}, "inputs[input] has 4 channels in 3 groups"),
        ({"groups": 4}, "whose first size 4 groups do not divide"),
        ({"groups": 10**9}, "whose first size 1000000000 groups do not divide"),
        ({"stride": (1, 2, 3)}, "attributes[stride] has 3 values; send 1, or 2, one for each axis"),
        ({"padding": (2**31 - 1,)}, "but the result of the convolution is (2, 6, 2147483650, 2147483650)"),
        ({"dilation": (9,)}, "which the kernel (3, 3) makes results of (-4, -4) of"),
        ({"output_padding": (1,)}, "attributes[output_padding] is (1, 1), and the convolution is not transposed"),
        ({"bias_sizes": (5,)}, "attributes[bias_sizes] is (5,), not the channels of inputs[grad_output]; send (6,)"),
        ({"input": (2, 0, 7, 8), "weight": (6, 0, 3, 3)}, "inputs[input].shape is (2, 0, 7, 8), with no elements"),
        ({"transposed": True, "output_padding": (2,)}, "send less than the larger of stride and dilation"),
        ({"transposed": True, "output_padding": (1,)}, "but the result of the convolution is (2, 6, 14, 16)"),
        ({"transposed": True, "three": True, "output_padding": (2,), "dilation": (3,)}, "send less than the stride"),
        ({"transposed": True, "weight": (6, 2, 3, 3)}, "inputs[weight].shape is (6, 2, 3, 3), and inputs[input] has 4"),
        ({"transposed": True, "padding": (9,)}, "makes results of (-3, -1) of"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], told: str) -> None:
    assert not problems()
    assert not problems(transposed=True)
    assert told in problems(**changed)


def test_products_with_bfloat16_alone_have_three_axes() -> None:
    for product in SPEC.products:
        told = "no convolution along three axes" if product in (P310, P910A) else ""
        assert told in problems(product, three=True)
        assert bool(problems(product, three=True)) == bool(told)
        assert not problems(product)


@pytest.mark.parametrize("product", [A2, Product.ATLAS_A3, P950])
def test_half_operands_leave_no_gradient_of_a_grouped_weight_along_three_axes(product: Product) -> None:
    refused = "attributes[cube_math_type] rounds to FLOAT16" if product is not P950 else ""
    assert refused in problems(product, three=True, cube_math_type=2)
    assert bool(problems(product, three=True, cube_math_type=2)) == bool(refused)
    assert not problems(product, three=True, cube_math_type=2, outputs=("grad_input", "grad_bias"))
    assert not problems(product, three=True, cube_math_type=2, of="float16")
    assert not problems(product, cube_math_type=2)


def test_lists_are_as_long_as_devices_want_them() -> None:
    typed = next(each for each in typed_cases(A2, SPEC.name) if each.case.name == "strided")
    given = {each.name: each.given(typed.arguments, A2) for each in SPEC.attributes}
    assert given == {
        "bias_sizes": None,
        "stride": (2, 2),
        "padding": (1, 1),
        "dilation": (1, 1),
        "transposed": False,
        "output_padding": (0, 0),
        "groups": 1,
        "cube_math_type": 0,
    }


def test_each_output_has_a_tolerance_of_its_own_terms() -> None:
    """That of a long sum is larger, and only products are rounded before they are made."""
    case = convolution_case("one", (64, 2, 32, 32), 3, (3, 3), padding=(1,))
    arguments = case.arguments(SPEC, "float32")
    plain, halved = (SPEC.tolerance(arguments, product, "float32") for product in (A2, P910A))
    shares = [plain.of(each.name).of_largest for each in SPEC.outputs]
    assert shares[1] == shares[2] > 10 * shares[0]
    assert halved.of("grad_bias") == plain.of("grad_bias")
    assert halved.of("grad_input").relative > 100 * plain.of("grad_input").relative
    grouped = convolution_case("two", (8, 4, 32, 32), 6, (3, 3), groups=2).arguments(SPEC, "float32")
    once, twice = (SPEC.tolerance(grouped, P910A, "float32").of(each) for each in ("grad_input", "grad_weight"))
    assert twice.route is not None
    assert once.route is not None
    assert twice.route.roundings == once.route.roundings + 1


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_one_tap_that_is_off_is_found(factor: float) -> None:
    typed = next(each for each in typed_cases(A2, SPEC.name) if each.case.name == "planes" and each.dtype == "float32")
    arrays, attributes = typed.arrays(), typed.case.attributes
    truth = reference.define(SPEC.name, arrays, attributes)
    changed = {**arrays, "weight": arrays["weight"].copy()}
    changed["weight"][2, 3, 1, 1] *= factor
    other = reference.define(SPEC.name, changed, attributes)
    limit = tolerance_of(SPEC, A2, arrays, attributes).of("grad_input").limit(truth[0])
    assert (np.abs(other[0] - truth[0]) > limit).any() == (factor != 1.0)


def test_the_work_is_that_of_wanted_gradients() -> None:
    typed = typed_cases(A2, SPEC.name)
    inputs, attributes = (first := next(iter(typed))).arguments.inputs, first.attributes
    one, both, none = (
        SPEC.matrix_operations(Arguments(inputs, attributes, outputs))
        for outputs in (("grad_weight",), (), ("grad_bias",))
    )
    assert (2 * one, none) == (both, 0)
    assert one == 2 * inputs["grad_output"].element_count * np.prod(inputs["weight"].shape[1:])


def forward_problems(
    product: Product = A2, input: tuple[int, ...] = (2, 4, 7, 8), of: str = "float32", **changed: Any
) -> str:
    """Returns what is wrong with a convolution that is legal without the changes, which name inputs and attributes."""
    spec, has_kernel = OPERATORS["convolution"], "kernel" in changed
    kernel = changed.pop("kernel", (3,) * (len(input) - 2))
    lists = {name: changed.pop(name) for name in ("padding", "transposed") if name in changed and has_kernel}
    typed = TypedCase(spec, forward_case("legal", input, 6, kernel, **lists), of)
    types = {
        name: TensorType(DTYPES[of], changed[name]) if name in changed else type
        for name, type in typed.arguments.inputs.items()
    }
    given = {name: each for name, each in changed.items() if name not in types}
    found = spec.check(Arguments(types, {**typed.attributes, **given}), product)
    return "; ".join(f"{each.field} {each.problem}; {each.remedy}" for each in found)


FAR: Any = {"input": (1, 1, 2, 2), "kernel": (258, 1), "transposed": True}
COVERED: Any = {"input": (1, 1, 3, 3, 3), "kernel": (1, 1, 1), "padding": (0, 0, 1), "transposed": True}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"bias": (5,)}, "inputs[bias].shape is (5,), and the result has 6 channels; send (6,), or leave it out"),
        ({"weight": (6, 4, 3)}, "inputs[weight].shape has 3 dimensions, and inputs[input] has 4"),
        ({"weight": (6, 5, 3, 3)}, "inputs[input] has 4 channels in 1 groups"),
        ({"weight": (6, 4, 12, 3)}, "inputs[input].shape is (2, 4, 7, 8), which the kernel (12, 3) makes results of"),
        ({"input": (2, 0, 7, 8)}, "inputs[input].shape is (2, 0, 7, 8), with no elements"),
        ({"input": (2, 4, 0, 8), "kernel": (1, 1), "transposed": True}, "makes results of (0, 8) of"),
        ({"output_padding": (1,)}, "attributes[output_padding] is (1, 1), and the convolution is not transposed"),
        (FAR, "reaches 257 positions beyond the padding; send at most 255 to product 910B"),
        (COVERED, "the padding (0, 0, 1) reaches beyond it; send less padding to product 910B"),
    ],
)
def test_what_does_not_fit_forward_is_refused(changed: dict[str, Any], told: str) -> None:
    assert not forward_problems()
    assert told in forward_problems(**changed)


def test_the_950_takes_transposed_convolutions_that_reach_far() -> None:
    for each in (FAR, COVERED):
        assert not forward_problems(P950, **each)


def test_the_documents_leave_out_the_910a_and_three_axes_on_the_310p() -> None:
    assert P910A not in OPERATORS["convolution"].products
    assert "no convolution along three axes" in forward_problems(P310, (2, 4, 5, 7, 8))
    assert not forward_problems(P310)
