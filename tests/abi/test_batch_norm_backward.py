"""aclnnBatchNormBackward: types that CANN casts, and channels that are divided."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from aclgrad.operators.batch_norm_backward.samples import batch_norm_case
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_gradients import gradient_of, unwritten


def sample(*shape: int) -> TypedCase:
    return TypedCase(OPERATORS["batch_norm_backward"], batch_norm_case("call", shape), "float32")


@pytest.mark.parametrize(
    "shape", [(70, 5), (300, 513), (9, 40, 31), (9, 40, 32), (3, 2, 8193), (65, 3, 2), (2, 1030, 3)], ids=str
)
def test_channels_in_blocks_and_chunks_of_samples(acl: Library, shape: tuple[int, ...]) -> None:
    typed = sample(*shape)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT, typed.arrays())


def test_gradients_may_have_other_types_than_the_input(acl: Library) -> None:
    typed = sample(5, 3, 40)
    types = {"grad_input": np.float16, "grad_weight": bfloat16, "grad_bias": np.float16}
    outputs = {name: unwritten(typed.outputs[name]).astype(type) for name, type in types.items()}
    for found, exact in zip(gradient_of(acl, typed, **outputs), gradient_of(acl, typed), strict=True):
        assert (found == exact.astype(found.dtype)).all()
