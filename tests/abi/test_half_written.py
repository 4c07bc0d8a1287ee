"""What these tests judge gradients by compares every element: a call may succeed and write half of an output."""

from collections.abc import Callable
from typing import Any

import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.bounds import assert_defined, assert_near
from tests.call_file import PRODUCT

from .table_gradients import result_of, unwritten

Judge = Callable[[TypedCase, Any, Product], None]


@pytest.mark.parametrize("judge", [assert_defined, assert_near])
@pytest.mark.parametrize("name", OPERATORS)
def test_half_of_each_output_unwritten(name: str, judge: Judge) -> None:
    for typed in typed_cases(PRODUCT):
        if typed.spec.name != name:
            continue
        truths = arrays_of(reference.define(name, typed.arrays(), typed.attributes))
        types = typed.outputs
        whole = {each: truth.astype(types[each].dtype.numpy) for each, truth in zip(types, truths, strict=True)}
        judge(typed, result_of(whole), PRODUCT)
        for output, gradient in whole.items():
            if gradient.size < 2:
                continue
            half = unwritten(types[output])
            half.reshape(-1)[: half.size // 2] = gradient.reshape(-1)[: half.size // 2]
            with pytest.raises(AssertionError):
                judge(typed, result_of(whole | {output: half}), PRODUCT)
