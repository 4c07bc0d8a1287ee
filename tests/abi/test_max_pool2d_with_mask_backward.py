"""aclnnMaxPool2dWithMaskBackward on masks that no argmax makes; tests/client/test_masks.py has the layouts."""

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from aclgrad.masks import Pooling
from aclgrad.operators.cases import TypedCase
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .programs_in_forks import call_of
from .table_gradients import call, device_arrays, gradient_of, run

Shape = tuple[int, ...]


def pooled(shape: Shape, kernel: Shape, stride: Shape, padding: Shape = (0,), dtype: str = "float32") -> TypedCase:
    grad_shape = (*shape[:-2], *Pooling.of(shape[-2:], kernel, stride, padding).output_size)
    return call(
        "max_pool2d_with_mask_backward", dtype, fixed={"indices": "int32"},
        grad_output=grad_shape, self=shape, indices=grad_shape, kernel_size=kernel, stride=stride, padding=padding,
    )  # fmt: skip


POSITIONS = pooled((2, 17, 7, 9), (3,), (2,), (1,))
BITS = pooled((2, 17, 5, 6), (1,), (2,))
"""Windows of one cell."""


def mask_of(typed: TypedCase) -> np.ndarray:
    return device_arrays(typed)["indices"]


def test_bits_of_many_windows_on_910a(run_program: Callable[..., list[str]]) -> None:
    assert run_program(call_of(check_mask_of_ones), {"product": "910A"}) == ["True", "True"]


def check_mask_of_ones(acl: Library) -> None:
    """Bits of cells in the padding are ignored; all others count, several of one window or none."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    grad = np.random.default_rng(1).integers(-9, 9, POSITIONS.case.shapes["grad_output"]).astype(np.float32)
    padded = np.zeros((2, 17, 7 + 2, 9 + 2), np.float32)
    for row, column in np.ndindex(*grad.shape[-2:]):
        padded[..., 2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += grad[..., row, column, None, None]
    for bits, expected in ((-1, padded[..., 1:-1, 1:-1]), (0, 0 * padded[..., 1:-1, 1:-1])):
        result = gradient_of(acl, POSITIONS, grad_output=grad, indices=np.full_like(mask_of(POSITIONS), bits))
        print(np.array_equal(result, expected))


@pytest.mark.parametrize(("typed", "seen"), [(POSITIONS, False), (BITS, True)], ids=["positions", "bits"])
def test_bits_are_read_as_a_view_and_positions_from_the_begin_of_the_storage(
    acl: Library, typed: TypedCase, seen: bool
) -> None:
    mask = mask_of(typed)
    storage = np.zeros((*mask.shape[:-1], mask.shape[-1] * 2), np.int8)
    if seen:
        storage[..., 1::2] = mask
    else:
        storage.reshape(-1)[: mask.size] = mask.reshape(-1)
    with ExitStack() as stack:
        tensors = {name: stack.enter_context(acl.tensor(array)) for name, array in device_arrays(typed).items()}
        tensors["indices"] = stack.enter_context(acl.tensor(storage, storage[..., 1::2]))
        run(acl, typed, tensors)
        assert_defined(typed, tensors["gradInput"].read_storage(), PRODUCT)


@pytest.mark.parametrize("bad", [-1, 0, 11, 14, 16, 24, 25, 2**31 - 1, -(2**31)])
def test_a_position_outside_its_own_window_chooses_nothing(acl: Library, bad: int) -> None:
    typed = pooled((1, 1, 5, 5), (2,), (3,), (1,))  # the last window: rows 2 and 3, columns 2 and 3
    mask, grad = np.zeros_like(mask_of(typed)), typed.arrays()["grad_output"]
    mask.reshape(-1)[:16] = np.array([0, 2, 10, bad], np.int32).view(np.int8)
    expected = np.zeros((1, 1, 5, 5), np.float32)
    expected.reshape(-1)[[0, 2, 10]] = grad.reshape(-1)[:3]
    np.testing.assert_array_equal(gradient_of(acl, typed, indices=mask), expected)
