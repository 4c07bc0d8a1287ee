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
    ("indices", "weights", "columns"),
    [(9, 3, 131073), (9, 2, 300000), (9, 140000, 1), (9, 131072, 3), (2000, 700, 600)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scales", [False, True])
def test_tiles(acl: Library, indices: int, weights: int, columns: int, dtype: str, scales: bool) -> None:
    """A thread makes several tiles one after another: none may see the sums of the one before."""
    typed = TypedCase(OPERATORS[NAME], embedding_case("call", (indices,), weights, columns, scales=scales), dtype)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("count", "part"), [(40_000, 2), (400_000, 100), (400_000, 2)], ids=str)
def test_rows_of_many_blocks(acl: Library, dtype: type, count: int, part: int) -> None:
    """A part of the indices is of the first row, and as many are of rows at the ends of blocks; the most make batches.

    Sums of whole numbers are exact, and then rounded once.
    """
    weights, padding = 7 * 65536 + 1, 65536
    indices = np.random.default_rng(0).integers(0, weights, count).astype(dtype)
    indices[1::part] = indices[1::part] // 65536 * 65536
    indices[::part] = 0
    grad_output = np.arange(count, dtype=np.float32)[:, None]
    truth = np.zeros((weights, 1))
    np.add.at(truth, indices[indices != padding], grad_output[indices != padding])
    typed = TypedCase(OPERATORS[NAME], embedding_case("call", (count,), weights, 1, padding=padding), "float32")
    np.testing.assert_array_equal(gradient_of(acl, typed, grad_output=grad_output, indices=indices), truth.astype("f4"))


def test_a_mean_of_large_numbers(acl: Library) -> None:
    """Its sum is beyond float32."""
    typed = sample((4,), 2, 1, scales=True)
    grad_output = np.full((4, 1), 3e38, np.float32)
    gradient = gradient_of(acl, typed, grad_output=grad_output, indices=np.array([1, 1, 1, 1]))
    np.testing.assert_array_equal(gradient, np.array([[0], [3e38]], np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row(acl: Library, value: float) -> None:
    typed = sample((6,), 4, 5)
    arrays = typed.arrays() | {"indices": np.array([0, 1, 2, 1, 0, 3])}
    arrays["grad_output"][3, 2] = value
    truth = reference.define(NAME, arrays, typed.attributes)
    np.testing.assert_allclose(gradient_of(acl, typed, **arrays), truth.astype(np.float32), rtol=1e-5)
    assert np.argwhere(~np.isfinite(truth)).tolist() == [[1, 2]]
