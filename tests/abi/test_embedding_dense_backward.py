"""aclnnEmbeddingDenseBackward: indices that are no rows, tiles, and types of indices that the wire does not have."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.embedding_dense_backward.samples import embedding_case
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import AclError, Library

from .table_gradients import gradient_of

NAME = "embedding_dense_backward"


def sample(indices: tuple[int, ...], weights: int, columns: int, scales: bool = False) -> TypedCase:
    return TypedCase(OPERATORS[NAME], embedding_case("call", indices, weights, columns, scales=scales), "float32")


@pytest.mark.needs("bad values")
@pytest.mark.parametrize("index", [-1, 4, 2**31, 2**60, -(2**63)])
def test_an_index_that_is_no_row_faults(acl: Library, index: int) -> None:
    typed = sample((5,), 4, 3)
    indices = np.array([0, 3, index, 1, 2])
    with pytest.raises(AclError, match=f"element 2 is {index}, and there are 4 rows"):
        gradient_of(acl, typed, indices=indices)


@pytest.mark.parametrize(
    ("weights", "columns"), [(3, 131073), (2, 300000), (140000, 1), (131072, 3), (700, 600)], ids=str
)
@pytest.mark.parametrize("scales", [False, True])
def test_tiles(acl: Library, weights: int, columns: int, scales: bool) -> None:
    typed = sample((9,), weights, columns, scales)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row(acl: Library, value: float) -> None:
    typed = sample((6,), 4, 5)
    arrays = typed.arrays() | {"indices": np.array([0, 1, 2, 1, 0, 3])}
    arrays["grad_output"][3, 2] = value
    truth = reference.define(NAME, arrays, typed.attributes)
    np.testing.assert_allclose(gradient_of(acl, typed, **arrays), truth.astype(np.float32), rtol=1e-5)
    assert np.argwhere(~np.isfinite(truth)).tolist() == [[1, 2]]
