"""aclnnMaxUnpool3dBackward against its definition: a gather in the last three axes."""

import numpy as np
import pytest

from tools.abi.acl import AclError, Library

from .values import random

NAME = "aclnnMaxUnpool3dBackward"
DTYPES = [np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8]
AICORE_EXCEPTION = 507015

SHAPES = [
    # self, outputSize
    ((1, 1, 1, 1, 1), (1, 1, 1)),
    ((2, 3, 2, 3, 4), (4, 6, 8)),
    ((1, 2, 3, 1, 1), (3, 1, 1)),
    ((3, 2, 2, 2), (3, 4, 5)),
    ((4, 1, 1, 7), (1, 1, 7)),
    ((1, 2, 2, 2), (1, 1, 8)),
    ((2, 5, 3, 17, 9), (6, 33, 18)),
    ((70, 3, 2, 9, 11), (2, 19, 30)),
    ((1, 1, 20, 50, 60), (40, 100, 60)),
]


def random_indices(shape: tuple[int, ...], output_size: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, np.prod(output_size), shape, np.int64)


def definition(grad: np.ndarray, indices: np.ndarray) -> np.ndarray:
    flat = grad.reshape(*grad.shape[:-3], -1)
    wanted = indices.reshape(*indices.shape[:-3], -1)
    return np.take_along_axis(flat, wanted, -1).reshape(indices.shape)


def gradient(acl: Library, grad: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Takes numpy views with any strides; their storage is the array that they view."""
    blank = np.full(indices.shape, 7, grad.dtype)
    grad_storage = grad if grad.base is None else grad.base
    index_storage = indices if indices.base is None else indices.base
    with (
        acl.tensor(grad_storage, grad) as grad_output,
        acl.tensor(index_storage, indices) as positions,
        acl.tensor(blank) as self,
        acl.int_array(grad.shape[-3:]) as output_size,
        acl.int_array((2, 2, 2)) as stride,
        acl.int_array((0, -1, 0)) as padding,
        acl.tensor(blank) as out,
    ):
        acl.run(NAME, grad_output.handle, self.handle, positions.handle, output_size, stride, padding, out.handle)
        return out.read_storage()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "output_size"), SHAPES)
def test_values(acl: Library, shape: tuple[int, ...], output_size: tuple[int, ...], dtype: type) -> None:
    grad = random((*shape[:-3], *output_size), dtype)
    indices = random_indices(shape, output_size)
    assert gradient(acl, grad, indices).tobytes() == definition(grad, indices).tobytes()


@pytest.mark.parametrize("cells", [1, 7, 8, 9, 15, 17, 63, 65, 255, 256, 257, 511, 512, 513, 1023, 1025])
def test_blocks_and_vector_tails(acl: Library, cells: int) -> None:
    for dtype in (np.int8, np.float16, np.float32, np.float64):
        grad = random((2, 3, 1, 3, cells), dtype)
        indices = random_indices((2, 3, 1, 1, cells), (1, 3, cells))
        assert gradient(acl, grad, indices).tobytes() == definition(grad, indices).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_inputs(acl: Library, dtype: type) -> None:
    grad = random((3, 4, 8, 6, 4), dtype).transpose(0, 1, 3, 2, 4)[:, 1:3, ::-1, 1:, ::2]
    assert grad.shape == (3, 2, 6, 7, 2)
    indices = random_indices((2, 3, 3, 3, 3), (6, 7, 2)).transpose(1, 0, 4, 3, 2)
    assert gradient(acl, grad, indices).tobytes() == definition(grad, indices).tobytes()


def test_every_bit_pattern_passes_through(acl: Library) -> None:
    grad = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(1, 1, 4, 128, 128).copy()
    indices = random_indices((1, 1, 1, 256, 256), (4, 128, 128))
    assert gradient(acl, grad, indices).tobytes() == definition(grad, indices).tobytes()


def test_an_index_may_repeat(acl: Library) -> None:
    grad = random((1, 2, 2, 2, 2), np.float32)
    indices = np.full((1, 2, 1, 1, 8), 5, np.int64)
    assert (gradient(acl, grad, indices).reshape(2, 8) == grad.reshape(2, 8)[:, 5:6]).all()


def test_empty_batch_leaves_the_output_untouched(acl: Library) -> None:
    result = gradient(acl, np.zeros((0, 2, 2, 2, 2), np.float32), np.zeros((0, 2, 1, 1, 1), np.int64))
    assert result.shape == (0, 2, 1, 1, 1)


@pytest.mark.needs("bad values")
@pytest.mark.parametrize("bad", [-1, 12, 13, 2**31, 2**40, 2**63 - 1, -(2**63)])
def test_a_bad_index_is_a_device_fault_at_the_next_synchronise(acl: Library, bad: int) -> None:
    grad = random((2, 1, 2, 3, 2), np.float32)
    indices = random_indices((2, 1, 2, 2, 2), (2, 3, 2))
    indices.reshape(-1)[[11, 13]] = bad
    with pytest.raises(AclError) as failure:
        gradient(acl, grad, indices)
    assert failure.value.code == AICORE_EXCEPTION
    assert f"element 11 is {bad}, outside the 12 elements" in failure.value.message
    assert acl.aclrtSynchronizeStream(None) == AICORE_EXCEPTION  # and from then on by every use of the device


@pytest.mark.needs("bad values")
def test_the_lowest_bad_index_is_reported_whatever_thread_meets_it(acl: Library) -> None:
    indices = np.zeros((8, 1, 1, 1, 20000), np.int64)
    indices.reshape(-1)[30001:] = 20000
    with pytest.raises(AclError, match="element 30001 is 20000"):
        gradient(acl, np.zeros((8, 1, 1, 1, 20000), np.int8), indices)


@pytest.mark.needs("bad values")
@pytest.mark.parametrize("bad", [-1, 600, 2**63 - 1])
@pytest.mark.parametrize("position", [0, 255, 256, 257, 511, 599, 600, 855, 1199])
def test_a_bad_index_is_found_at_every_edge_of_a_block(acl: Library, position: int, bad: int) -> None:
    indices = random_indices((2, 1, 1, 1, 600), (1, 1, 600))
    indices.reshape(-1)[position:] = bad
    with pytest.raises(AclError, match=f"element {position} is {bad}, outside the 600 elements"):
        gradient(acl, random((2, 1, 1, 1, 600), np.float32), indices)
