"""Gradients that are not wanted stay as they are, null pointers too, and change nothing about the others."""

from itertools import product

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, first_cases, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.layer_norm_backward.samples import layer_norm_case
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_calls import MASK, TABLED, abi_names, arguments_of
from .table_gradients import masked_gradients_of, unwritten

LAYER_NORM = OPERATORS["layer_norm_backward"]
LONG = [
    TypedCase(LAYER_NORM, layer_norm_case("long", (rows,), (columns,)), "float32")
    for rows, columns in ((3, 9000), (4000, 20))
]


def calls_of(name: str) -> list[TypedCase]:
    cases = [typed for typed in typed_cases(PRODUCT, name) if typed.dtype == "float32"][::4]
    cases += [*first_cases(PRODUCT, name, every_dtype=True), *(LONG if name == LAYER_NORM.name else [])]
    return [each for each in cases if all(type.element_count for type in each.outputs.values())]


@pytest.mark.parametrize("name", [name for name in TABLED if MASK in arguments_of(calls_of(name)[0], PRODUCT)])
def test_an_unwanted_gradient_stays_as_it_is(acl: Library, name: str) -> None:
    for typed in calls_of(name):
        every, names = masked_gradients_of(acl, typed, {}), abi_names(typed.spec)
        for mask in product((False, True), repeat=len(every)):
            wanted = dict(zip(typed.outputs, mask, strict=True))
            nullable = [each.name for each in typed.spec.outputs if each.is_nullable]
            nulls = {names[each]: None for each in nullable if not wanted[each]}
            for changed in ({MASK: mask}, *([{MASK: mask, **nulls}] if nulls else [])):
                found = masked_gradients_of(acl, typed, changed)
                for each, gradient, expected in zip(wanted, found, every, strict=True):
                    untouched = expected if wanted[each] else unwritten(typed.outputs[each])
                    np.testing.assert_array_equal(gradient, untouched, f"{typed} {mask} {each}")
