"""What these tests judge gradients by compares every element: a call may succeed and write half of an output."""

from collections.abc import Callable
from typing import Any

import pytest

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from aclgrad.truths import truths_of
from tests.bounds import assert_defined, assert_near
from tests.call_file import PRODUCT

from .table_gradients import result_of, unwritten

Judge = Callable[[TypedCase, Any, Product], None]


@pytest.mark.parametrize("judge", [assert_defined, assert_near])
def test_half_of_each_output_unwritten(judge: Judge) -> None:
    for typed in first_cases(PRODUCT, every_dtype=True):
        truths = truths_of(typed, typed.arrays())
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
