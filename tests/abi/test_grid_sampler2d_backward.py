"""aclnnGridSampler2DBackward: what the table's calls do not show."""

from contextlib import ExitStack
from itertools import product

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase
from aclgrad.operators.grid_sampler2d_backward.definition import backward
from aclgrad.operators.grid_sampler2d_backward.spec import NEAREST, SPEC, Padding
from aclgrad.operators.samples import samples_of
from tools.abi.acl import Library

SAMPLES = {each.name: each for each in samples_of(SPEC.name).cases}
NAN, INF = np.nan, np.inf
FILL = 7
BOTH = (True, True)


def gradients(
    acl: Library,
    arrays: dict[str, np.ndarray],
    mode: int = 0,
    padding: int = 0,
    align: bool = False,
    mask: tuple[bool, ...] = BOTH,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns both gradients; an unwanted one keeps its bytes."""
    outputs = [np.full_like(arrays[name], FILL) for name in ("input", "grid")]
    with ExitStack() as stack:
        tensors = [stack.enter_context(acl.tensor(array)) for array in (*arrays.values(), *outputs)]
        handles = [tensor.handle for tensor in tensors]
        wanted = stack.enter_context(acl.value(mask))
        acl.run(SPEC.symbol, *handles[:3], mode, padding, align, wanted, *handles[3:])
        return tensors[3].read_storage(), tensors[4].read_storage()


def arrays_of(points: np.ndarray, size: tuple[int, int], channels: int = 2) -> dict[str, np.ndarray]:
    """Points of a row of one image, with gradients and cells of their own."""
    generator = np.random.default_rng(1)
    return {
        "grad_output": generator.standard_normal((1, channels, 1, len(points))).astype(np.float32),
        "input": generator.standard_normal((1, channels, *size)).astype(np.float32),
        "grid": points.astype(np.float32).reshape(1, 1, -1, 2),
    }


@pytest.mark.parametrize("name", ["bilinear_border", "nearest_zeros", "many_points"])
@pytest.mark.parametrize("dtype", SPEC.tolerances)
def test_an_unwanted_gradient_stays_as_it_is(acl: Library, name: str, dtype: str) -> None:
    typed = TypedCase(SPEC, SAMPLES[name], dtype)
    arrays, modes = typed.arrays(), list(typed.attributes.values())
    both = gradients(acl, arrays, *modes)
    for mask in product((False, True), repeat=2):
        found = gradients(acl, arrays, *modes, mask=mask)
        for is_wanted, gradient, expected in zip(mask, found, both, strict=True):
            np.testing.assert_array_equal(gradient, expected if is_wanted else FILL)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", Padding)
@pytest.mark.parametrize("mode", [0, NEAREST])
def test_a_point_that_is_at_no_number_is_outside(acl: Library, mode: int, padding: int, align: bool) -> None:
    points = np.array([(NAN, 0.1), (0.1, NAN), (NAN, NAN), (INF, 0.1), (-INF, 0.1), (0.1, INF), (0.3, 0.25)])
    arrays = arrays_of(points, (5, 8))
    found = gradients(acl, arrays, mode, padding, align)
    for gradient, truth in zip(found, backward(**arrays, **_attributes(mode, padding, align)), strict=True):
        np.testing.assert_allclose(gradient, truth, rtol=1e-4, atol=1e-5)
    assert not found[1][0, 0, :3].any()
    # As if these points were not there.
    alone = {**arrays, "grad_output": arrays["grad_output"][..., 3:].copy(), "grid": arrays["grid"][:, :, 3:].copy()}
    np.testing.assert_array_equal(found[0], gradients(acl, alone, mode, padding, align)[0])


def _attributes(mode: int, padding: int, align: bool) -> dict[str, int]:
    return {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}


def test_nearest_takes_halves_to_even_cells(acl: Library) -> None:
    at = np.arange(-0.5, 5, 1)
    arrays = arrays_of(np.column_stack([at / 2 - 1, np.zeros(len(at))]), (3, 5), 1)
    arrays["grad_output"][...] = 1 << np.arange(len(at))
    input_grad, grid_grad = gradients(acl, arrays, NEAREST, align=True)
    np.testing.assert_array_equal(input_grad[0, 0], [[0] * 5, [1 + 2, 0, 4 + 8, 0, 16 + 32], [0] * 5])
    assert not grid_grad.any()


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", [Padding.BORDER, Padding.REFLECTION])
def test_a_point_on_the_border_has_no_gradient(acl: Library, padding: int, align: bool) -> None:
    edge = 1 if align else 1 - 1 / 4
    points = np.array([(edge, 0.1), (-edge, 0.1), (0.1, 1), (0.1, -1)])
    grid_grad = gradients(acl, arrays_of(points, (8, 4)), 0, padding, align)[1][0, 0]
    assert (grid_grad[:2, 0] == 0).all()
    assert (grid_grad[2:, 1] == 0).all()
    assert grid_grad[:2, 1].all()
    assert grid_grad[2:, 0].all()


@pytest.mark.parametrize("padding", Padding)
def test_points_may_be_anywhere(acl: Library, padding: int) -> None:
    """Far beyond any index: only border says where they are."""
    far = [3e38, -3e38, 1e30, -1e30, 2.0**31, -(2.0**31), 1e9]
    arrays = arrays_of(np.array([(x, y) for x in far for y in (0.1, x)]), (5, 6))
    found = gradients(acl, arrays, 0, padding)
    if padding == Padding.REFLECTION:
        assert np.isfinite(np.concatenate([each.ravel() for each in found])).all()
        return
    for gradient, truth in zip(found, backward(**arrays, **_attributes(0, padding, False)), strict=True):
        np.testing.assert_allclose(gradient, truth, rtol=1e-4, atol=1e-5)


def test_cells_outside_are_not_read(acl: Library) -> None:
    """A weight of 0 would turn infinity beside a point at the edge into NaN."""
    arrays = arrays_of(np.array([(-1.1, 0.1)]), (4, 4), 1)
    arrays["input"][..., 1:] = INF
    input_grad, grid_grad = gradients(acl, arrays)
    assert np.isfinite(grid_grad).all()
    assert not input_grad[..., 1:].any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_not_finite_stays_with_its_cells(acl: Library, dtype: type) -> None:
    arrays = {name: array.astype(dtype) for name, array in arrays_of(np.zeros((3, 2)), (4, 4)).items()}
    arrays["grid"][0, 0] = [(-0.6, -0.6), (0.4, 0.4), (5, 5)]
    arrays["grad_output"][0, :, 0] = [INF, 1, INF]
    input_grad, grid_grad = gradients(acl, arrays)
    assert not np.isfinite(input_grad[:, :, :2, :2]).any()
    assert np.isfinite(input_grad[:, :, 2:, 2:]).all()
    assert not np.isfinite(grid_grad[0, 0, 0]).any()
    np.testing.assert_array_equal(grid_grad[0, 0, 2], 0)
    assert np.isfinite(grid_grad[0, 0, 1]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_short_types_are_rounded_once(acl: Library, dtype: str) -> None:
    typed = TypedCase(SPEC, SAMPLES["one_point"], dtype)
    arrays = {name: array[:1] for name, array in typed.arrays().items()}
    points = 4096
    arrays["grad_output"] = np.ones((1, 3, 1, points), arrays["grad_output"].dtype)
    arrays["grid"] = np.resize(arrays["grid"], (1, 1, points, 2))
    arrays["grid"][...] = 0
    arrays["input"] = arrays["input"][:, :, :1, :1].copy()
    np.testing.assert_array_equal(gradients(acl, arrays)[0].astype(np.float32), points)


@pytest.mark.parametrize("mode", [0, NEAREST])
def test_a_large_plane_of_a_short_type_is_added_up_in_bands(acl: Library, mode: int) -> None:
    """In the same order, so that only the rounding at the end differs from float32."""
    generator = np.random.default_rng(2)
    arrays = {
        "grad_output": generator.standard_normal((1, 1, 100, 300)).astype(np.float16),
        "input": generator.standard_normal((1, 1, 1201, 1703)).astype(np.float16),
        "grid": generator.uniform(-1.1, 1.1, (1, 100, 300, 2)).astype(np.float16),
    }
    short = gradients(acl, arrays, mode)
    full = gradients(acl, {name: array.astype(np.float32) for name, array in arrays.items()}, mode)
    assert np.count_nonzero(short[0]) > 20000
    for gradient, expected in zip(short, full, strict=True):
        np.testing.assert_array_equal(gradient, expected.astype(np.float16))
