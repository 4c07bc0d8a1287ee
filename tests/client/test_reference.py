"""The definitions, checked against differences of the forward functions that they are the gradients of."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.masks import Pooling
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.client import forwards

CASES = [case for case in typed_cases(Product.ATLAS_A2) if case.dtype == "float32"]
DIRECTIONS = 5
STEP = 1e-6

Array = np.ndarray[Any, Any]


def forward_of(typed: TypedCase, arrays: dict[str, Array]) -> Callable[[Array], Array]:
    """Returns the forward function of the case, in its input alone."""
    given = typed.case.attributes
    match typed.spec.name:
        case "adaptive_avg_pool2d_backward":
            return lambda input: forwards.adaptive_avg_pool2d(input, *arrays["grad_output"].shape[-2:])
        case "max_unpool3d_backward":
            return lambda input: forwards.max_unpool3d(input, arrays["indices"], given["output_size"])
        case "replication_pad2d_backward":
            return lambda input: forwards.replication_pad2d(input, given["padding"])
        case "max_pool2d_with_mask_backward":
            options = {"stride": (), "padding": (0,), **given}
            pooling = Pooling.of(arrays["self"].shape[-2:], **options)
            return lambda input: forwards.max_pool2d(
                input, pooling.kernel_size, pooling.stride, pooling.padding, pooling.output_size
            )
        case "roi_align_v2_backward":
            return lambda input: forwards.roi_align(
                input,
                arrays["boxes"],
                (given["pooled_height"], given["pooled_width"]),
                given.get("spatial_scale", 1.0),
                given.get("sampling_ratio", 0),
                given.get("aligned", False),
            )
    raise AssertionError(f"{typed.spec.name} has no forward function")


def where_differences_are_taken(typed: TypedCase, arrays: dict[str, Array]) -> Array:
    """Returns an input; for max pooling, one whose argmax is that of the case and far from changing."""
    if typed.spec.name == "roi_align_v2_backward":
        return np.zeros(typed.case.attributes["input_shape"])
    input = np.zeros(arrays["self"].shape)
    if typed.spec.name == "max_pool2d_with_mask_backward":
        return np.random.default_rng(0).permutation(input.size).reshape(input.shape).astype(np.float64)
    return input


@pytest.mark.parametrize("typed", CASES, ids=str)
def test_a_definition_is_the_gradient_of_its_forward(typed: TypedCase) -> None:
    arrays = dict(typed.arrays())
    grad_output = arrays["grad_output"].astype(np.float64)
    input = where_differences_are_taken(typed, arrays)
    forward = forward_of(typed, arrays)
    if typed.spec.name == "max_pool2d_with_mask_backward":
        arrays["indices"] = argmax_by_search(input, forward(input))
    gradient = reference.define(typed.spec.name, arrays | {"grad_output": grad_output}, typed.case.attributes)
    assert gradient.shape == input.shape
    generator = np.random.default_rng(1)
    for _ in range(DIRECTIONS):
        direction = generator.standard_normal(input.shape)
        above, below = forward(input + STEP * direction), forward(input - STEP * direction)
        difference = (grad_output * (above - below)).sum() / (2 * STEP)
        assert difference == pytest.approx((gradient * direction).sum(), rel=1e-6, abs=1e-6)


def argmax_by_search(input: Array, pooled: Array) -> Array:
    """Returns where each pooled value stands in its plane: every value of a permutation stands in one place alone."""
    places = np.argsort(input.reshape(-1))
    return places[pooled.astype(np.int64)] % max(input.shape[-1] * input.shape[-2], 1)


@pytest.mark.parametrize("typed", CASES, ids=str)
def test_shape_stands_for_an_unread_input(typed: TypedCase) -> None:
    arrays = dict(typed.arrays())
    full = reference.define(typed.spec.name, arrays, typed.case.attributes)
    shapes = {each.name: arrays[each.name].shape for each in typed.spec.inputs if each.unread_on}
    np.testing.assert_array_equal(reference.define(typed.spec.name, arrays | shapes, typed.case.attributes), full)
    if typed.spec.name == "max_unpool3d_backward":
        assert full.dtype == arrays["grad_output"].dtype  # values move and are never computed with
    else:
        assert full.dtype == (np.complex128 if np.iscomplexobj(arrays["grad_output"]) else np.float64)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_definition(name: str) -> None:
    assert callable(getattr(reference, name))
