"""aclnnMaxPool2dWithMaskBackward reads both layouts of its mask, and what a mask may have that is no argmax."""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import DataType, Library

from . import max_pool
from .max_pool import Pool
from .values import assert_close, random

NAME = "aclnnMaxPool2dWithMaskBackward"

POOLS = [
    Pool((1, 1, 2, 2), (2,)),
    Pool((2, 17, 7, 9), (3,), (2,), (1,), ceil_mode=True),
    Pool((1, 33, 5, 6), (2, 3), (2, 1), (1, 0)),
    Pool((3, 10, 11), (3,), (1,), (1,)),
]
POOLS_1X1 = [
    Pool((2, 17, 5, 6), (1,), (2,)),
    Pool((1, 2, 5, 6), (1, 1), (3, 2), (0, 0), ceil_mode=True),
]


def gradient(
    acl: Library, pool: Pool, grad: np.ndarray, indices: np.ndarray, view: np.ndarray | None = None
) -> np.ndarray:
    poison = np.full(pool.shape, np.nan, grad.dtype)
    with (
        acl.tensor(grad) as grad_output, acl.tensor(indices, view) as mask, acl.tensor(poison) as out,
        acl.int_array(pool.kernel) as kernel, acl.int_array(pool.stride) as stride,
        acl.int_array(pool.padding) as padding, acl.int_array((1,)) as dilation,
    ):  # fmt: skip
        acl.run(
            NAME, grad_output.handle, out.handle, mask.handle, kernel, stride, padding, dilation, pool.ceil_mode,
            out.handle,
        )  # fmt: skip
        return out.read_storage()


def check(acl: Library, pool: Pool, layout: Callable[[Pool, np.ndarray], np.ndarray]) -> None:
    chosen = max_pool.choose(pool)
    grad = random(pool.grad_shape, np.float32)
    result = gradient(acl, pool, grad, layout(pool, chosen))
    assert_close(result, *max_pool.gradient(pool, grad, max_pool.positions(pool, chosen)))


@pytest.mark.parametrize("pool", POOLS + POOLS_1X1, ids=str)
def test_windows_of_one_cell_have_bits_and_others_positions(acl: Library, pool: Pool) -> None:
    check(acl, pool, max_pool.mask_layout if pool in POOLS_1X1 else max_pool.argmax_layout)


def test_all_windows_have_bits_on_910a(run_program: Callable[..., list[str]], tmp_path: Path) -> None:
    config = tmp_path / "910A.json"
    config.write_text('{"host": {"product": "910A"}}')
    program = f"from tests.abi.{Path(__file__).stem} import check_on_910a\ncheck_on_910a(acl)\n"
    assert run_program(program, ACL_HOST_CONFIG=str(config)) == ["done"]


def check_on_910a(acl: Library) -> None:
    """Runs in a process of its own, because a process has one product."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for pool in POOLS + POOLS_1X1:
        check(acl, pool, max_pool.mask_layout)
    for pool in POOLS:
        check_mask_of_ones(acl, pool)
    print("done")


def check_mask_of_ones(acl: Library, pool: Pool) -> None:
    """Bits of cells in the padding are ignored; all others count, even several of one window."""
    grad = random(pool.grad_shape, np.float32)
    expected, scale = np.zeros(pool.shape), np.zeros(pool.shape)
    for row, column in np.ndindex(*pool.output):
        for _, y, x in pool.windows(row, column):
            expected[..., y, x] += grad[..., row, column]
            scale[..., y, x] += abs(grad[..., row, column])
    assert_close(gradient(acl, pool, grad, np.full(pool.indices_shape, -1, np.int8)), expected, scale)


def test_the_offset_of_positions_is_ignored(acl: Library) -> None:
    pool = Pool((1, 2, 4, 4), (2,))
    chosen = max_pool.choose(pool)
    grad = random(pool.grad_shape, np.float32)
    storage = max_pool.argmax_layout(pool, chosen).reshape(-1)
    result = gradient(acl, pool, grad, storage, storage[4:68].reshape(1, 1, 2, 32))
    assert_close(result, *max_pool.gradient(pool, grad, max_pool.positions(pool, chosen)))


def test_strided_bits_are_read_as_a_view(acl: Library) -> None:
    pool = Pool((2, 3, 4, 5), (1,))
    chosen = max_pool.choose(pool)
    grad = random(pool.grad_shape, np.float32)
    indices = max_pool.mask_layout(pool, chosen)
    storage = np.zeros((*indices.shape[:-1], indices.shape[-1] * 2), np.int8)
    storage[..., 1::2] = indices
    result = gradient(acl, pool, grad, storage, storage[..., 1::2])
    assert_close(result, *max_pool.gradient(pool, grad, max_pool.positions(pool, chosen)))


@pytest.mark.parametrize("bad", [-1, 0, 2, 11, 14, 16, 19, 22, 24, 25, 100, 2**31 - 1, -(2**31)])
def test_a_position_outside_its_own_window_chooses_nothing(acl: Library, bad: int) -> None:
    pool = Pool((1, 1, 5, 5), (2,), (3,), (1,))  # the last window: rows 2 and 3, columns 2 and 3
    argmax = np.array([[0, 2], [10, bad]], np.int32)
    grad = random(pool.grad_shape, np.float32)
    indices = np.zeros(pool.indices_shape, np.int8)
    indices.reshape(-1)[:16] = np.frombuffer(argmax.tobytes(), np.int8)
    expected = np.zeros(pool.shape, np.float32)
    expected.reshape(-1)[[0, 2, 10]] = grad.reshape(-1)[:3]
    np.testing.assert_array_equal(gradient(acl, pool, grad, indices), expected)


def test_a_mask_without_bits_chooses_nothing(acl: Library) -> None:
    pool = Pool((2, 3, 4, 5), (1,))
    result = gradient(acl, pool, random(pool.grad_shape, np.float32), np.zeros(pool.indices_shape, np.int8))
    assert (result == 0).all()


def test_many_windows_add_up_in_float32(acl: Library) -> None:
    pool = Pool((1, 1, 65, 65), (33,), (1,), (0,))
    grad = np.ones(pool.grad_shape, ml_dtypes.bfloat16)
    argmax = np.full(pool.grad_shape, 32 * 65 + 32, np.int32)  # the one cell that all windows share
    indices = np.zeros(pool.indices_shape, np.int8)
    indices.reshape(-1)[: argmax.nbytes] = np.frombuffer(argmax.tobytes(), np.int8)
    assert gradient(acl, pool, grad, indices)[0, 0, 32, 32] == ml_dtypes.bfloat16(33 * 33)


@pytest.mark.parametrize("pool", [POOLS[0], POOLS_1X1[0]], ids=str)
def test_the_sums_need_a_workspace(acl: Library, pool: Pool) -> None:
    with (
        acl.describe(pool.grad_shape) as grad, acl.describe(pool.shape) as self,
        acl.describe(pool.indices_shape, DataType.INT8) as mask, acl.int_array(pool.kernel) as kernel,
        acl.int_array(pool.stride) as stride, acl.int_array(pool.padding) as padding, acl.int_array((1,)) as dilation,
    ):  # fmt: skip
        size, executor = acl.plan(NAME, grad, self, mask, kernel, stride, padding, dilation, False, self)
        acl.call("aclDestroyAclOpExecutor", executor)
    assert size >= np.prod(pool.shape[-2:]) * 4
