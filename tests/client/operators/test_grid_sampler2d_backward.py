"""Which calls of grid_sampler2d_backward are refused, and what its definition says of grids that PyTorch crashes on."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.grid_sampler2d_backward.spec import SPEC
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

LEGAL = {"grad_output": (2, 3, 4, 6), "input": (2, 3, 5, 7), "grid": (2, 4, 6, 2)}
MODES = {"interpolation_mode": 0, "padding_mode": 0, "align_corners": False}
MOST_ON_950 = 2**32 - 101

SHAPES: dict[str, tuple[dict[str, tuple[int, ...]], list[str]]] = {
    "as it is": ({}, []),
    "no rows": ({"input": (2, 3, 0, 7)}, ["inputs[input].shape"]),
    "no columns": ({"input": (2, 3, 5, 0)}, ["inputs[input].shape"]),
    "no images": ({"grad_output": (0, 3, 4, 6), "input": (0, 3, 5, 7), "grid": (0, 4, 6, 2)}, []),
    "no channels": ({"grad_output": (2, 0, 4, 6), "input": (2, 0, 5, 7)}, []),
    "no points": ({"grad_output": (2, 3, 4, 0), "grid": (2, 4, 0, 2)}, []),
    "images of grad_output": ({"grad_output": (1, 3, 4, 6)}, ["inputs[grad_output].shape"]),
    "channels of grad_output": ({"grad_output": (2, 2, 4, 6)}, ["inputs[grad_output].shape"]),
    "images of the grid": ({"grid": (1, 4, 6, 2)}, ["inputs[grid].shape"]),
    "points of the grid": ({"grid": (2, 6, 4, 2)}, ["inputs[grid].shape"]),
    "coordinates of the grid": ({"grid": (2, 4, 6, 3)}, ["inputs[grid].shape"]),
}


def refused(
    product: Product = Product.ATLAS_A2, dtypes: dict[str, str] | None = None, mode: int = 0, **shapes: tuple[int, ...]
) -> list[str]:
    named = dict.fromkeys(LEGAL, "float32") | (dtypes or {})
    types = {name: TensorType(DTYPES[named[name]], shape) for name, shape in (LEGAL | shapes).items()}
    return [each.field for each in SPEC.check(Arguments(types, MODES | {"interpolation_mode": mode}), product)]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    shapes, fields = SHAPES[name]
    assert refused(**shapes) == fields


@pytest.mark.parametrize("name", ["input", "grid"])
def test_all_dtypes_are_equal(name: str) -> None:
    assert refused(dtypes={name: "float64"}) == [f"inputs[{name}].data_type"]


def test_bicubic_is_refused_because_no_device_says_that_it_has_it() -> None:
    assert refused(mode=1) == []
    assert refused(mode=2) == ["attributes[interpolation_mode]"]


@pytest.mark.parametrize("product", sorted(SPEC.products))
def test_the_950_counts_elements_in_32_bits(product: Product) -> None:
    for elements in (MOST_ON_950, MOST_ON_950 + 1):
        large = {"grad_output": (1, 1, 1, 1), "input": (1, 1, 1, elements), "grid": (1, 1, 1, 2)}
        is_too_large = product is Product.ASCEND_950 and elements > MOST_ON_950
        assert refused(product, **large) == ["inputs[input].shape"] * is_too_large


def test_products() -> None:
    dtypes = SPEC.inputs[0].dtypes
    assert Product.ATLAS_INFERENCE not in SPEC.products
    assert {each for each in SPEC.products if "bfloat16" not in dtypes[each]} == {Product.ATLAS_TRAINING}


@pytest.mark.parametrize("padding", range(3))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_point_that_is_at_no_number_is_outside(value: float, padding: int) -> None:
    arrays = {name: np.ones(shape) for name, shape in LEGAL.items()}
    arrays["grid"][...] = 0.1
    arrays["grid"][0, 0, 0, 0] = value
    input_grad, grid_grad = reference.grid_sampler2d_backward(**arrays, **MODES | {"padding_mode": padding})
    points = 2 * 24
    # Only border says where infinity is.
    missing = not (padding == 1 and np.isinf(value))
    assert input_grad.sum() == pytest.approx(3 * (points - missing))
    assert np.isfinite(grid_grad).all()
    assert grid_grad[0, 0, 0, 0] == 0


def test_an_infinite_gradient_gives_a_point_an_infinite_one() -> None:
    """Not NaN, as the sum of what each cell gives would be: the cells' values are subtracted first."""
    image = np.array([[[[1.0, 2.0], [2.0, 3.0]]]])
    grad, grid = np.full((1, 1, 1, 1), np.inf), np.zeros((1, 1, 1, 2))
    _, grid_grad = reference.grid_sampler2d_backward(grad, image, grid, **{**MODES, "align_corners": True})
    np.testing.assert_array_equal(grid_grad, np.full((1, 1, 1, 2), np.inf))
