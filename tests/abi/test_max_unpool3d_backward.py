"""aclnnMaxUnpool3dBackward at the edges of its blocks, on every bit pattern, and on bad indices."""

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import AclError, Library

from .table_gradients import call, gradient_of

AICORE_EXCEPTION = 507015


def gather(shape: tuple[int, ...], output_size: tuple[int, ...], dtype: str = "float32") -> TypedCase:
    grad_shape = (*shape[:-3], *output_size)
    return call(
        "max_unpool3d_backward", dtype, fixed={"indices": "int64"},
        grad_output=grad_shape, self=shape, indices=shape, output_size=output_size,
    )  # fmt: skip


@pytest.mark.parametrize("cells", [255, 256, 257, 511, 513, 1023, 1025])
def test_blocks_and_vector_tails(acl: Library, cells: int) -> None:
    for dtype in ("int8", "float16", "float32", "float64"):
        typed = gather((2, 3, 1, 1, cells), (1, 3, cells), dtype)
        assert_defined(typed, gradient_of(acl, typed), PRODUCT)


def test_every_bit_pattern_passes_through(acl: Library) -> None:
    typed = gather((1, 1, 1, 256, 256), (4, 128, 128), "float16")
    grad = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(1, 1, 4, 128, 128)
    indices = typed.arrays()["indices"]
    expected = grad.reshape(-1)[indices]
    assert gradient_of(acl, typed, grad_output=grad, indices=indices).tobytes() == expected.tobytes()


@pytest.mark.needs("bad values")
@pytest.mark.parametrize("bad", [-1, 12, 2**31, 2**63 - 1, -(2**63)])
def test_a_bad_index_is_a_device_fault_at_the_next_synchronise(acl: Library, bad: int) -> None:
    typed = gather((2, 1, 2, 2, 2), (2, 3, 2))
    indices = typed.arrays()["indices"]
    indices.reshape(-1)[[11, 13]] = bad
    with pytest.raises(AclError) as failure:
        gradient_of(acl, typed, indices=indices)
    assert failure.value.code == AICORE_EXCEPTION
    assert f"element 11 is {bad}, outside the 12 elements" in failure.value.message
    assert acl.aclrtSynchronizeStream(None) == 0  # it comes once


@pytest.mark.needs("bad values")
def test_the_lowest_bad_index_is_reported_whatever_thread_meets_it(acl: Library) -> None:
    typed = gather((8, 1, 1, 1, 20000), (1, 1, 20000), "int8")
    indices = np.zeros((8, 1, 1, 1, 20000), np.int64)
    indices.reshape(-1)[30001:] = 20000
    with pytest.raises(AclError, match="element 30001 is 20000"):
        gradient_of(acl, typed, indices=indices)


@pytest.mark.needs("bad values")
@pytest.mark.parametrize("position", [0, 255, 256, 257, 511, 599, 600, 855, 1199])
def test_a_bad_index_is_found_at_every_edge_of_a_block(acl: Library, position: int) -> None:
    typed = gather((2, 1, 1, 1, 600), (1, 1, 600))
    indices = typed.arrays()["indices"]
    indices.reshape(-1)[position:] = 600
    with pytest.raises(AclError, match=f"element {position} is 600, outside the 600 elements"):
        gradient_of(acl, typed, indices=indices)
