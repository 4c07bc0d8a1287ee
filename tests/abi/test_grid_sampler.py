"""aclnnGridSampler2DBackward and aclnnGridSampler3DBackward: what the table's calls do not show."""

from itertools import product

import numpy as np
import pytest

from aclgrad.operators.families.grid_sampler.definition import backward
from aclgrad.operators.families.grid_sampler.spec import NEAREST, Padding
from tools.abi.acl import Library

from .table_gradients import call, gradient_of

NAN, INF = np.nan, np.inf
ALONG = pytest.mark.parametrize("axes", [2, 3])


def gradients(
    acl: Library, arrays: dict[str, np.ndarray], mode: int = 0, padding: int = 0, align: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    shapes = {name: array.shape for name, array in arrays.items()}
    dtype = arrays["input"].dtype.name
    typed = call(f"grid_sampler{shapes['grid'][-1]}d_backward", dtype, **shapes, **_attributes(mode, padding, align))
    return gradient_of(acl, typed, **arrays)


def _attributes(mode: int, padding: int, align: bool) -> dict[str, int]:
    return {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}


def arrays_of(points: np.ndarray, size: tuple[int, ...], channels: int = 2) -> dict[str, np.ndarray]:
    """Points of a row of one image, with gradients and cells of their own."""
    generator = np.random.default_rng(1)
    ones = (1,) * (len(size) - 1)
    return {
        "grad_output": generator.standard_normal((1, channels, *ones, len(points))).astype(np.float32),
        "input": generator.standard_normal((1, channels, *size)).astype(np.float32),
        "grid": points.astype(np.float32).reshape(1, *ones, -1, len(size)),
    }


def within(axes: int, points: list[tuple[float, float]]) -> np.ndarray:
    """Points of a plane, or of one plane of a volume."""
    return np.array([(*point, 0.2)[:axes] for point in points])


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", Padding)
@pytest.mark.parametrize("mode", [0, NEAREST])
@pytest.mark.parametrize("size", [(5, 8), (4, 5, 8), (4, 5, 1)], ids=str)
def test_a_point_that_is_at_no_number_is_outside(
    acl: Library, size: tuple[int, ...], mode: int, padding: int, align: bool
) -> None:
    odd = [each for each in product((0.1, NAN, INF, -INF), repeat=len(size)) if NAN in each or np.isinf(each).any()]
    odd.sort(key=lambda each: NAN not in each)
    points = np.array([*odd, (0.3, 0.25, -0.4)[: len(size)]])
    arrays = arrays_of(points, size)
    found = gradients(acl, arrays, mode, padding, align)
    for gradient, truth in zip(found, backward(**arrays, **_attributes(mode, padding, align)), strict=True):
        np.testing.assert_allclose(gradient, truth, rtol=1e-4, atol=1e-5)
    count = np.isnan(points).any(axis=1).sum()
    assert not found[1].reshape(len(points), -1)[:count].any()
    # As if these points were not there.
    alone = {
        **arrays,
        "grad_output": arrays["grad_output"][..., count:].copy(),
        "grid": arrays["grid"][..., count:, :].copy(),
    }
    np.testing.assert_array_equal(found[0], gradients(acl, alone, mode, padding, align)[0])


@pytest.mark.parametrize(("axes", "axis"), [(axes, axis) for axes in (2, 3) for axis in range(axes)])
def test_nearest_takes_halves_to_even_cells(acl: Library, axes: int, axis: int) -> None:
    at = np.arange(-0.5, 5, 1)
    points = np.zeros((len(at), axes))
    points[:, axis] = at / 2 - 1
    arrays = arrays_of(points, tuple(5 if each == axis else 3 for each in reversed(range(axes))), 1)
    arrays["grad_output"][...] = 1 << np.arange(len(at))
    input_grad, grid_grad = gradients(acl, arrays, NEAREST, align=True)
    row = np.moveaxis(input_grad[0, 0], axes - 1 - axis, 0)[(slice(None), *[1] * (axes - 1))]
    np.testing.assert_array_equal(row, [1 + 2, 0, 4 + 8, 0, 16 + 32])
    assert input_grad.sum() == row.sum()
    assert not grid_grad.any()


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", [Padding.BORDER, Padding.REFLECTION])
@ALONG
def test_a_point_on_the_border_has_no_gradient(acl: Library, axes: int, padding: int, align: bool) -> None:
    edge = 1 if align else 1 - 1 / 4
    points = np.full((2 * axes, axes), 0.1)
    for axis in range(axes):
        points[2 * axis : 2 * axis + 2, axis] = edge, -edge
    grid_grad = gradients(acl, arrays_of(points, (4,) * axes), 0, padding, align)[1].reshape(2 * axes, axes)
    np.testing.assert_array_equal(grid_grad == 0, np.repeat(np.eye(axes), 2, axis=0))


@pytest.mark.parametrize("padding", Padding)
@ALONG
def test_points_may_be_anywhere(acl: Library, axes: int, padding: int) -> None:
    """Far beyond any index: only border says where they are."""
    far = [3e38, -3e38, 1e30, -1e30, 2.0**31, -(2.0**31), 1e9]
    points = np.array([(x, y, x)[:axes] for x in far for y in (0.1, x)])
    arrays = arrays_of(points, (4, 5, 6)[-axes:])
    found = gradients(acl, arrays, 0, padding)
    if padding == Padding.REFLECTION:
        assert np.isfinite(np.concatenate([each.ravel() for each in found])).all()
        return
    for gradient, truth in zip(found, backward(**arrays, **_attributes(0, padding, False)), strict=True):
        np.testing.assert_allclose(gradient, truth, rtol=1e-4, atol=1e-5)


@ALONG
def test_cells_beyond_the_whole_numbers_of_float32(acl: Library, axes: int) -> None:
    """A point is at a cell there: all of its gradient goes to it."""
    size = (*(1,) * (axes - 1), 2**24 + 9)
    points = np.full((9, axes), 0.0)
    points[:, 0] = np.linspace(1 - 1e-6, 1, 9)
    arrays = arrays_of(points, size, 1)
    arrays["grad_output"][...] = 1 << np.arange(9)
    input_grad, _ = gradients(acl, arrays, 0, Padding.BORDER, align=True)
    assert input_grad.sum(dtype=np.float64) == 2**9 - 1


@ALONG
def test_cells_outside_are_not_read(acl: Library, axes: int) -> None:
    """A weight of 0 would turn infinity beside a point at the edge into NaN."""
    arrays = arrays_of(within(axes, [(-1.1, 0.1)]), (4,) * axes, 1)
    arrays["input"][..., 1:] = INF
    input_grad, grid_grad = gradients(acl, arrays)
    assert np.isfinite(grid_grad).all()
    assert not input_grad[..., 1:].any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@ALONG
def test_what_is_not_finite_stays_with_its_cells(acl: Library, axes: int, dtype: type) -> None:
    points = np.array([(-0.6,) * axes, (0.4,) * axes, (5,) * axes])
    arrays = {name: array.astype(dtype) for name, array in arrays_of(points, (4,) * axes).items()}
    arrays["grad_output"][...] = [INF, 1, INF]
    input_grad, grid_grad = gradients(acl, arrays)
    low, high = (slice(None), slice(None), *[slice(2)] * axes), (slice(None), slice(None), *[slice(2, None)] * axes)
    assert not np.isfinite(input_grad[low]).any()
    assert np.isfinite(input_grad[high]).all()
    first, second, third = grid_grad.reshape(3, axes)
    assert not np.isfinite(first).any()
    assert np.isfinite(second).all()
    np.testing.assert_array_equal(third, 0)


@pytest.mark.parametrize("mode", [0, NEAREST])
@pytest.mark.parametrize("size", [(1201, 1703), (83, 121, 203)], ids=str)
def test_a_large_channel_of_a_short_type_is_added_up_in_bands(acl: Library, size: tuple[int, ...], mode: int) -> None:
    """In the same order, so that only the rounding at the end differs from float32."""
    generator = np.random.default_rng(2)
    axes = len(size)
    points = (3, 100, 100)[-axes:]
    arrays = {
        "grad_output": generator.standard_normal((1, 1, *points)).astype(np.float16),
        "input": generator.standard_normal((1, 1, *size)).astype(np.float16),
        "grid": generator.uniform(-1.1, 1.1, (1, *points, axes)).astype(np.float16),
    }
    short = gradients(acl, arrays, mode)
    full = gradients(acl, {name: array.astype(np.float32) for name, array in arrays.items()}, mode)
    assert np.count_nonzero(short[0]) > 5000
    for gradient, expected in zip(short, full, strict=True):
        np.testing.assert_array_equal(gradient, expected.astype(np.float16))
