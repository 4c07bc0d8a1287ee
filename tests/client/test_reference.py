"""The definitions, checked against differences of the forward functions that they are the gradients of."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import definition_of
from aclgrad.operators.spec import OperatorKind, Tolerance
from aclgrad.products import Product
from tests import made_up, shared_cases

CASES = [case for case in (*typed_cases(Product.ATLAS_A2), *made_up.CASES) if case.dtype == "float32"]
GRADIENTS = [*(name for name, spec in OPERATORS.items() if spec.kind is OperatorKind.GRADIENT), made_up.NAME]
DIRECTIONS = 2
STEP = 5e-5
"""Small enough for operators that are not linear, and large enough for differences in float64."""

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _made_up() -> Iterator[None]:
    with made_up.registered():
        yield


def forward(typed: TypedCase, arrays: dict[str, Array], name: str, value: Array) -> Array:
    """Returns the output for another value of one input."""
    function = definition_of(typed.spec.name).forward
    named = {"input" if each == "self" else each: array for each, array in {**arrays, name: value}.items()}
    return function(**named, **typed.case.attributes)


def defined(typed: TypedCase, **changed: Any) -> tuple[Array, ...]:
    return arrays_of(reference.define(typed.spec.name, typed.arrays() | changed, typed.case.attributes))


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_definition_is_the_gradient_of_its_forward_and_takes_shapes(name: str) -> None:
    for typed in CASES:
        if typed.spec.name == name:
            with shared_cases.case(typed):
                gradients = defined(typed)
                assert_gradient_of_forward(typed, gradients)
                assert_shapes_do(typed, gradients)


def assert_gradient_of_forward(typed: TypedCase, gradients: tuple[Array, ...]) -> None:
    arrays = typed.arrays()
    optional = {each.name for each in typed.spec.inputs if each.is_optional}
    for output, gradient in zip(typed.spec.outputs, gradients, strict=True):
        if output.of in optional - set(arrays):
            continue
        # Where the operator is not given its input, the forward function is linear and any point will do.
        point = arrays.get(output.of, np.zeros(gradient.shape)).astype(np.float64)
        assert gradient.shape == point.shape
        generator = np.random.default_rng(1)
        for _ in range(DIRECTIONS):
            direction = generator.standard_normal(point.shape)
            higher, lower = (forward(typed, arrays, output.of, point + step * direction) for step in (STEP, -STEP))
            difference = (arrays[typed.spec.leading].astype(np.float64) * (higher - lower)).sum() / (2 * STEP)
            terms = gradient * direction
            # What a forward pass saved is rounded to float32.
            assert difference == pytest.approx(terms.sum(), abs=1e-6 * max(1.0, np.abs(terms).sum()))


def assert_shapes_do(typed: TypedCase, gradients: tuple[Array, ...]) -> None:
    """The shape stands for an input that is not read."""
    unread = [each.name for each in typed.spec.inputs if each.unread_on and each.name in typed.case.shapes]
    again = defined(typed, **{name: typed.case.shapes[name] for name in unread}) if unread else gradients
    # An operator that only moves values keeps their type.
    is_exact = typed.tolerance(Product.ATLAS_A2) == Tolerance(0.0, 0.0)
    for each, other in zip(gradients, again, strict=True):
        np.testing.assert_array_equal(each, other)
        assert each.dtype == (typed.arrays()[typed.spec.leading].dtype if is_exact else np.float64)


def test_every_operator_has_a_public_definition() -> None:
    assert all(callable(getattr(reference, name)) for name in OPERATORS)
    assert OPERATORS.keys() < set(reference.__all__)


def test_an_operator_that_is_not_known_is_named() -> None:
    with pytest.raises(aclgrad.UnknownOperatorError, match="operator 'x' is not known; ask for one of abs, adaptive"):
        reference.define("x", {}, {})
