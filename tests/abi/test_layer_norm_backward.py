"""aclnnLayerNormBackward: rows that are divided, and types that CANN casts."""

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.layer_norm_backward.samples import layer_norm_case
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_gradients import gradient_of, unwritten


def sample(rows: int, columns: int) -> TypedCase:
    return TypedCase(OPERATORS["layer_norm_backward"], layer_norm_case("call", (rows,), (columns,)), "float32")


def check(acl: Library, typed: TypedCase, **given: np.ndarray[Any, Any]) -> None:
    assert_defined(typed, gradient_of(acl, typed, **given), PRODUCT, typed.arrays() | given)


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 8192), (1, 8193), (3, 20000), (70, 8193), (2100, 33), (5000, 7), (20000, 1), (33, 2100)]
)
def test_rows_in_parts_and_chunks_of_rows(acl: Library, rows: int, columns: int) -> None:
    check(acl, sample(rows, columns))


def test_gradients_may_have_other_types_than_the_input(acl: Library) -> None:
    typed = sample(50, 30)
    types = {"grad_input": bfloat16, "grad_weight": np.float16, "grad_bias": bfloat16}
    outputs = {name: unwritten(typed.outputs[name]).astype(type) for name, type in types.items()}
    for found, exact in zip(gradient_of(acl, typed, **outputs), gradient_of(acl, typed), strict=True):
        assert (found == exact.astype(found.dtype)).all()


def test_means_may_have_another_type_than_the_input(acl: Library) -> None:
    typed = sample(6, 20)
    arrays = typed.arrays()
    check(acl, typed, mean=arrays["mean"].astype(np.float16), rstd=arrays["rstd"].astype(bfloat16))


def test_values_far_from_zero_keep_their_digits(acl: Library) -> None:
    typed = sample(4, 64)
    given = np.round(typed.arrays()["input"] * 64).astype(np.float32) / 64 + 4096
    rows = given.astype(np.float64)
    mean, rstd = rows.mean(1, keepdims=True), 1 / rows.std(1, keepdims=True)
    check(acl, typed, input=given, mean=mean.astype(np.float32), rstd=rstd.astype(np.float32))
