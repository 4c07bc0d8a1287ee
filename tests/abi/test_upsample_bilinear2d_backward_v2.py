"""aclnnUpsampleBilinear2dBackwardV2: sizes that are computed in parts, and special values."""

import numpy as np
import pytest

from aclgrad.operators.upsample_bilinear2d_backward_v2.definition import neighbours
from tools.abi.acl import Library

from .table_gradients import call, gradient_of

NAME = "upsample_bilinear2d_backward_v2"
NAN, INF = np.nan, np.inf
Size = tuple[int, int]


def gradient(acl: Library, grad: np.ndarray, size: Size, align: bool = False) -> np.ndarray:
    sizes = {"output_size": grad.shape[2:], "input_size": (*grad.shape[:2], *size)}
    typed = call(NAME, grad.dtype.name, grad_output=grad.shape, align_corners=align, **sizes)
    return gradient_of(acl, typed, grad_output=grad)


def weights(output: int, input: int, align: bool) -> np.ndarray:
    """Returns the share that each cell has of each output."""
    first, second, share = neighbours(output, input, align)
    found = np.zeros((input, output))
    np.add.at(found, (first, np.arange(output)), 1 - share)
    np.add.at(found, (second, np.arange(output)), share)
    return found


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    ("size", "upsampled"),
    [
        ((3, 2100), (6, 4200)),  # tiles of a row
        ((3, 3000), (3, 9000)),
        ((2, 1500), (8, 6000)),  # as many copies as have a loop of their own
        ((3, 1100), (5, 7700)),  # more
        ((2, 5), (3, 30_000)),  # copies of a row in parts
        ((1, 4), (2, 20_001)),
        ((10, 2500), (10, 3333)),
        ((3, 4001), (6, 1001)),  # fewer
        ((2, 3), (5000, 4)),  # sums of so many rows are in float64
        ((1200, 1), (2401, 1)),
        ((1, 1), (300, 300)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_of_large_planes(acl: Library, size: Size, upsampled: Size, align: bool, dtype: str) -> None:
    grad = np.random.default_rng(7).standard_normal((1, 2, *upsampled)).astype(dtype)
    rows, columns = (weights(upsampled[axis], size[axis], align) for axis in range(2))
    wide = grad.astype(np.float64)
    truth, scale = rows @ wide @ columns.T, rows @ np.abs(wide) @ columns.T
    found = gradient(acl, grad, size, align).astype(np.float64)
    rounding = 1e-6 if dtype == "float32" else 1e-3
    assert (np.abs(found - truth) <= rounding * np.abs(truth) + 2e-6 * scale + 6e-8).all()


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_is_not_finite_reaches_the_cells_around_it(acl: Library, value: float) -> None:
    grad = np.ones((1, 1, 12, 40), np.float32)
    grad[0, 0, 4, 21] = value
    found = gradient(acl, grad, (6, 20))
    assert np.argwhere(~np.isfinite(found[0, 0])).tolist() == [[1, 10], [1, 11], [2, 10], [2, 11]]


@pytest.mark.parametrize("align", [False, True])
def test_equal_sizes_are_a_copy(acl: Library, align: bool) -> None:
    grad = np.array([[[[1, NAN, 3], [INF, 5, -INF]]]], np.float32)
    np.testing.assert_array_equal(gradient(acl, grad, (2, 3), align), grad)
