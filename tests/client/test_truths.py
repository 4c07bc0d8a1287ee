"""The file of true gradients has those of the definitions, and cases that it lacks are defined anew."""

import numpy as np

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from aclgrad.truths import define, names_of, read_truths, truths_of
from tests import made_up

CASES = [each for each in first_cases(Product.ATLAS_A2, every_dtype=True) if each.spec.name == "tanh_backward"]


def test_stored_truths_are_those_of_the_definition() -> None:
    for typed in CASES:
        inputs = typed.arrays()
        assert names_of(typed, inputs)[0] in read_truths()
        (stored,), (defined,) = truths_of(typed, inputs), define(typed, inputs)
        assert stored.dtype == defined.dtype
        np.testing.assert_allclose(stored, defined, rtol=1e-7)


def test_other_inputs_of_a_case_are_defined_anew() -> None:
    inputs = {name: each + 1 for name, each in CASES[0].arrays().items()}
    np.testing.assert_array_equal(truths_of(CASES[0], inputs), define(CASES[0], inputs))


def test_another_operator_is_defined_anew() -> None:
    with made_up.registered():
        typed: TypedCase = made_up.CASES[0]
        assert truths_of(typed, typed.arrays())[0].shape == typed.case.shapes["self"]
