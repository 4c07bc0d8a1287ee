"""aclnnReplicationPad2dBackward against its definition."""

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import Library

from .values import TOLERANCE, VIEWS, assert_close, random, storage_of

NAME = "aclnnReplicationPad2dBackward"
BF16 = ml_dtypes.bfloat16

CASES = [
    # self, padding: left, right, top, bottom
    ((1, 1, 1, 1), (0, 0, 0, 0)),
    ((2, 3, 4, 5), (1, 2, 3, 1)),
    ((2, 3, 4, 5), (0, 0, 2, 0)),
    ((1, 2, 1, 5), (2, 2, 7, 7)),
    ((1, 2, 5, 1), (2, 3, 0, 0)),
    ((1, 1, 2, 2), (7, 7, 7, 7)),
    ((3, 4, 6), (4, 0, 0, 5)),
    ((0, 2, 4, 4), (1, 1, 1, 1)),
    ((1, 2, 3, 4), (20, 30, 0, 0)),
    ((70, 3, 33, 17), (3, 2, 1, 4)),
    ((1, 1, 90, 300), (5, 5, 5, 5)),
]
CASES_WITHOUT_BF16 = [
    ((1, 2, 3, 4), (20, 30, 40, 9)),
    ((2, 3, 5, 6), (-1, -2, -2, -1)),
    ((2, 3, 5, 6), (-2, 3, 4, -3)),
    ((2, 5, 6), (3, -4, -3, 5)),
    ((1, 1, 4, 4), (-3, 0, 0, -3)),
    ((1, 1, 3, 3), (-5, 4, 4, -5)),
    ((1, 1, 3, 3), (-9, 12, 12, -9)),
    ((1, 1, 1, 1), (-3, 5, 5, -3)),
    ((1, 1, 3, 4), (-(2**63), 2**63 - 1, 0, 0)),
]


def definition(grad: np.ndarray, shape: tuple[int, ...], padding: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    height, width = shape[-2:]
    wide = grad.astype(np.complex128 if np.iscomplexobj(grad) else np.float64)
    result, scale = np.zeros(shape, wide.dtype), np.zeros(shape)
    for y in range(grad.shape[-2]):
        for x in range(grad.shape[-1]):
            to_y, to_x = min(max(y - padding[2], 0), height - 1), min(max(x - padding[0], 0), width - 1)
            result[..., to_y, to_x] += wide[..., y, x]
            scale[..., to_y, to_x] += abs(wide[..., y, x])
    return result, scale


def padded(shape: tuple[int, ...], padding: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-2] + padding[2] + padding[3], shape[-1] + padding[0] + padding[1])


def gradient(acl: Library, grad: np.ndarray, shape: tuple[int, ...], padding: tuple[int, ...]) -> np.ndarray:
    poison = np.full(shape, np.nan, grad.dtype)
    with (
        acl.tensor(grad) as grad_output,
        acl.tensor(poison) as self,
        acl.int_array(padding) as pads,
        acl.tensor(poison) as grad_input,
    ):
        acl.run(NAME, grad_output.handle, self.handle, pads, grad_input.handle)
        return grad_input.read_storage()


@pytest.mark.parametrize(
    ("shape", "padding", "dtype"),
    [(*case, dtype) for dtype in TOLERANCE for case in CASES + (CASES_WITHOUT_BF16 if dtype is not BF16 else [])],
)
def test_values(acl: Library, shape: tuple[int, ...], padding: tuple[int, ...], dtype: type) -> None:
    grad = random(padded(shape, padding), dtype)
    assert_close(gradient(acl, grad, shape, padding), *definition(grad, shape, padding))


@pytest.mark.parametrize("width", range(1, 7))
def test_every_small_padding_of_a_row(acl: Library, width: int) -> None:
    for left in range(-7, 4):
        for right in range(-7, 4):
            if width + left + right <= 0:
                continue
            grad = np.arange(1, width + left + right + 1, dtype=np.float32).reshape(1, 1, 1, -1)
            result = gradient(acl, grad, (1, 1, 1, width), (left, right, 0, 0))
            expected, _ = definition(grad, (1, 1, 1, width), (left, right, 0, 0))
            np.testing.assert_array_equal(result, expected, f"{left}, {right}")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", VIEWS)
def test_strided_input_and_output(acl: Library, name: str, dtype: type) -> None:
    view = VIEWS[name]
    padding = (1, 2, 3, 0)
    shape = (2, 3, 5, 4)
    grad_storage = random(storage_of(view, padded(shape, padding)), dtype)
    out_storage = np.full(storage_of(view, shape), 7, dtype)
    grad = view(grad_storage)
    with (
        acl.tensor(grad_storage, grad) as grad_output,
        acl.tensor(out_storage, view(out_storage)) as out,
        acl.int_array(padding) as pads,
    ):
        acl.run(NAME, grad_output.handle, out.handle, pads, out.handle)
        result = out.read_storage()
    assert_close(view(result).copy(), *definition(grad, shape, padding))
    view(result)[...] = 7
    assert (result == out_storage).all()  # nothing outside of the view was written


def test_non_finite_values_stay_where_they_belong(acl: Library) -> None:
    grad = np.array([[[np.inf, 1, 2, np.nan, 3, 4]]], np.float32)
    result = gradient(acl, grad, (1, 1, 4), (1, 1, 0, 0))
    np.testing.assert_array_equal(result, [[[np.inf, 2, np.nan, 7]]])


def test_what_is_cropped_away_entirely_leaves_the_output_untouched(acl: Library) -> None:
    before = np.full((1, 1, 4, 4), 7, np.float32)
    with (
        acl.describe((1, 1, 0, 4)) as grad_output,
        acl.tensor(before) as out,
        acl.int_array((0, 0, -2, -2)) as pads,
    ):
        size, executor = acl.plan(NAME, grad_output, out.handle, pads, out.handle)
        assert size == 0
        acl.call(NAME, None, 0, executor, None)
        acl.call("aclrtSynchronizeStream", None)
        assert (out.read_storage() == before).all()
