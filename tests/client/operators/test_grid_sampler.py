"""Which calls of grid sampling are refused, and what its definition says of grids that PyTorch crashes on."""

from collections.abc import Callable

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

SPECS = {axes: OPERATORS[f"grid_sampler{axes}d_backward"] for axes in (2, 3)}
ALONG = pytest.mark.parametrize("axes", SPECS)
MODES = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}
MOST = {
    Product.ASCEND_950: 2**32 - 101,
    **dict.fromkeys([Product.ATLAS_A2, Product.ATLAS_A3], 2**31 - 1),
}

Shapes = dict[str, tuple[int, ...]]


def legal(axes: int) -> Shapes:
    points = (2, 4, 6)[-axes:]
    return {"grad_output": (2, 3, *points), "input": (2, 3, *(3, 5, 7)[-axes:]), "grid": (2, *points, axes)}


# Of a legal call, the sizes that are changed by input and axis, and the inputs that are refused.
CHANGES: dict[str, tuple[dict[str, dict[int, int]], list[str]]] = {
    "as it is": ({}, []),
    "no rows": ({"input": {-2: 0}}, ["input"]),
    "no columns": ({"input": {-1: 0}}, ["input"]),
    "no images": ({"grad_output": {0: 0}, "input": {0: 0}, "grid": {0: 0}}, []),
    "no channels": ({"grad_output": {1: 0}, "input": {1: 0}}, []),
    "no points": ({"grad_output": {-1: 0}, "grid": {-2: 0}}, []),
    "images of grad_output": ({"grad_output": {0: 1}}, ["grad_output"]),
    "channels of grad_output": ({"grad_output": {1: 2}}, ["grad_output"]),
    "images of the grid": ({"grid": {0: 1}}, ["grid"]),
    "points of the grid": ({"grid": {1: 5}}, ["grid"]),
    "coordinates of the grid": ({"grid": {-1: 4}}, ["grid"]),
}


def changed(axes: int, changes: dict[str, dict[int, int]]) -> Shapes:
    shapes = {name: list(shape) for name, shape in legal(axes).items()}
    for name, sizes in changes.items():
        for axis, size in sizes.items():
            shapes[name][axis] = size
    return {name: tuple(shape) for name, shape in shapes.items()}


def refused(
    axes: int,
    shapes: Shapes | None = None,
    product: Product = Product.ATLAS_A2,
    dtypes: dict[str, str] | None = None,
    mode: int = 0,
) -> list[str]:
    given = shapes or legal(axes)
    named = dict.fromkeys(given, "float32") | (dtypes or {})
    types = {name: TensorType(DTYPES[named[name]], shape) for name, shape in given.items()}
    return [each.field for each in SPECS[axes].check(Arguments(types, MODES | {"interpolation_mode": mode}), product)]


@pytest.mark.parametrize("name", CHANGES)
@ALONG
def test_shapes(axes: int, name: str) -> None:
    changes, inputs = CHANGES[name]
    assert refused(axes, changed(axes, changes)) == [f"inputs[{each}].shape" for each in inputs]


def test_a_volume_without_depth() -> None:
    assert refused(3, changed(3, {"input": {2: 0}})) == ["inputs[input].shape"]


@pytest.mark.parametrize("name", ["input", "grid"])
@ALONG
def test_all_dtypes_are_equal(axes: int, name: str) -> None:
    assert refused(axes, dtypes={name: "float64"}) == [f"inputs[{name}].data_type"]


def test_bicubic_is_refused_because_no_device_says_that_it_has_it() -> None:
    assert refused(2, mode=1) == []
    assert refused(2, mode=2) == ["attributes[interpolation_mode]"]
    assert next(each.maximum for each in SPECS[3].attributes if each.name == "interpolation_mode") == 1


@pytest.mark.parametrize("product", sorted(SPECS[2].products))
@ALONG
def test_devices_count_elements_in_32_or_31_bits(axes: int, product: Product) -> None:
    most = MOST.get(product)
    for elements in (2**31 - 1, 2**31, 2**32 - 101, 2**32 - 100):
        ones = (1,) * axes
        large = {"grad_output": (1, 1, *ones), "input": (1, 1, *ones[1:], elements), "grid": (1, *ones, axes)}
        is_too_large = most is not None and elements > most
        assert refused(axes, large, product) == ["inputs[input].shape"] * is_too_large


@ALONG
def test_products(axes: int) -> None:
    dtypes = SPECS[axes].inputs[0].dtypes
    assert Product.ATLAS_INFERENCE not in SPECS[axes].products
    assert {each for each in SPECS[axes].products if "bfloat16" not in dtypes[each]} == {Product.ATLAS_TRAINING}


def definition(axes: int) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    found: Callable[..., tuple[np.ndarray, np.ndarray]] = getattr(reference, f"grid_sampler{axes}d_backward")
    return found


@pytest.mark.parametrize("padding", range(3))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@ALONG
def test_a_point_that_is_at_no_number_is_outside(axes: int, value: float, padding: int) -> None:
    arrays = {name: np.ones(shape) for name, shape in legal(axes).items()}
    arrays["grid"][...] = 0.1
    arrays["grid"].flat[axes - 1] = value
    input_grad, grid_grad = definition(axes)(**arrays, **MODES | {"padding_mode": padding})
    points = arrays["grid"].size // axes
    # Only border says where infinity is.
    missing = not (padding == 1 and np.isinf(value))
    assert input_grad.sum() == pytest.approx(3 * (points - missing))
    assert np.isfinite(grid_grad).all()
    assert grid_grad.flat[axes - 1] == 0


@ALONG
def test_an_infinite_gradient_gives_a_point_an_infinite_one(axes: int) -> None:
    """Not NaN, as the sum of what each cell gives would be: the cells' values are subtracted first."""
    image = np.indices((2,) * axes).sum(axis=0, dtype=float)[None, None]
    grad, grid = np.full((1, 1, *[1] * axes), np.inf), np.zeros((1, *[1] * axes, axes))
    _, grid_grad = definition(axes)(grad, image, grid, **{**MODES, "align_corners": True})
    np.testing.assert_array_equal(grid_grad, np.full(grid.shape, np.inf))
