"""Padding and resampling of planes: every small size, what is not finite, and more than the table's samples have."""

import numpy as np
import pytest

from aclgrad.operators.families.grid_sampler.definition import value as sampled
from aclgrad.operators.families.resampling.definition import upsample_bilinear2d
from aclgrad.operators.upsample_nearest2d_backward.spec import nearest
from tools.abi.acl import Library

from .table_gradients import call, gradient_of

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("rule", ["replication", "reflection"])
@pytest.mark.parametrize("size", range(1, 5))
def test_every_small_padding_of_a_row_and_a_column(acl: Library, rule: str, size: int) -> None:
    most = 4 if rule == "replication" else size
    for before in range(-6, most):
        for after in range(-6, most):
            padded = size + before + after
            if padded <= 0:
                continue
            places = np.arange(padded) - before
            walk = [*range(size), *range(size - 2, 0, -1)] if size > 1 else [0]
            cells = np.clip(places, 0, size - 1) if rule == "replication" else np.array(walk)[places % len(walk)]
            values = np.arange(1.0, size + 1, dtype=np.float32)
            for shape, padding in (((1, 1, 1, size), (before, after, 0, 0)), ((1, size, 1), (0, 0, before, after))):
                typed = call(f"{rule}_pad2d", self=shape, padding=padding)
                found = gradient_of(acl, typed, self=values.reshape(shape))
                np.testing.assert_array_equal(found.ravel(), values[cells], str(padding))


@pytest.mark.parametrize("name", ["replication_pad2d", "reflection_pad2d"])
def test_padding_moves_bits(acl: Library, name: str) -> None:
    for dtype in ("float32", "float16"):
        typed = call(name, dtype, self=(1, 1, 2, 5), padding=(3, 1, 1, 1))
        bits = np.random.default_rng(1).integers(0, 256, typed.arrays()["self"].nbytes, np.uint8)
        array = bits.view(typed.arrays()["self"].dtype).reshape(1, 1, 2, 5)
        mode = "edge" if name == "replication_pad2d" else "reflect"
        unsigned = array.view(f"u{array.itemsize}")
        expected = np.pad(unsigned, ((0, 0), (0, 0), (1, 1), (3, 1)), mode=mode)
        np.testing.assert_array_equal(gradient_of(acl, typed, self=array).view(unsigned.dtype), expected)


SIZES = [
    ((3, 2100), (6, 4200)),  # tiles of a row
    ((2, 1100), (4, 3300)),
    ((2, 900), (8, 3600)),
    ((2, 700), (2, 3500)),  # more copies than have a loop of their own
    ((2, 7), (3, 5000)),
    ((3, 9001), (5, 1001)),  # cells that are far apart
    ((5000, 3), (4, 2)),
    ((1, 1), (3, 4)),
    ((7, 6), (7, 6)),
]


@pytest.mark.parametrize(("size", "upsampled"), SIZES, ids=str)
def test_copies_of_large_planes(acl: Library, size: tuple[int, int], upsampled: tuple[int, int]) -> None:
    for dtype in ("float32", "float16"):
        array = np.random.default_rng(3).standard_normal((1, 2, *size)).astype(dtype)
        rows, columns = (nearest(*each) for each in zip(upsampled, size, strict=True))
        typed = call("upsample_nearest2d_v2", dtype, self=array.shape, output_size=upsampled)
        found = gradient_of(acl, typed, self=array)
        np.testing.assert_array_equal(found, array[:, :, rows[:, None], columns])


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(("size", "upsampled"), SIZES, ids=str)
def test_interpolations_of_large_planes(
    acl: Library, size: tuple[int, int], upsampled: tuple[int, int], align: bool
) -> None:
    for dtype, bound in (("float32", 2e-6), ("float16", 2e-3)):
        array = np.random.default_rng(4).standard_normal((1, 2, *size)).astype(dtype)
        attributes = {"output_size": upsampled, "align_corners": align}
        typed = call("upsample_bilinear2d", dtype, self=array.shape, **attributes)
        truth = upsample_bilinear2d(array, **attributes)
        np.testing.assert_allclose(gradient_of(acl, typed, self=array), truth, rtol=bound, atol=bound)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_is_not_finite_is_in_what_lies_beside_it(acl: Library, value: float) -> None:
    array = np.ones((1, 1, 6, 20), np.float32)
    array[0, 0, 2, 19] = value
    typed = call("upsample_bilinear2d", self=array.shape, output_size=(12, 40))
    found = gradient_of(acl, typed, self=array)[0, 0]
    assert np.argwhere(~np.isfinite(found)).tolist() == [[y, x] for y in range(3, 7) for x in range(37, 40)]


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("size", [(5, 8), (1, 8), (5, 1), (1, 1)], ids=str)
def test_points_of_every_kind(acl: Library, size: tuple[int, int], mode: int, padding: int, align: bool) -> None:
    """Inside, outside, far away, and at no number."""
    generator = np.random.default_rng(5)
    odd = (NAN, INF, -INF, 1e30, 0.3)
    points = generator.uniform(-1.4, 1.4, (1, 300, 2))
    points[0, : len(odd) ** 2] = [(x, y) for x in odd for y in odd]
    image = generator.standard_normal((1, 3, *size)).astype(np.float32)
    grid = points[:, None].astype(np.float32)
    given = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}
    typed = call("grid_sampler2d", input=image.shape, grid=grid.shape, **given)
    found = gradient_of(acl, typed, input=image, grid=grid)
    # Where reflections of 1e30 are is anybody's guess.
    known = ~(np.abs(points[0]) == 1e30).any(axis=-1) if padding == 2 else np.full(300, True)
    np.testing.assert_allclose(found[..., known], sampled(image, grid, **given)[..., known], rtol=1e-5, atol=1e-5)


def test_cells_outside_are_not_read(acl: Library) -> None:
    image = np.full((1, 1, 2, 2), INF, np.float32)
    grid = np.array([[[[-2, -2], [-3, 0], [-0.2, 0.2]]]], np.float32)
    typed = call("grid_sampler2d", input=image.shape, grid=grid.shape)
    np.testing.assert_array_equal(gradient_of(acl, typed, input=image, grid=grid), [[[[0, 0, INF]]]])
