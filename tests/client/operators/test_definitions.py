"""Definitions that compute whole arrays at once give what the same rule gives cell by cell."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.masks import MaskLayout, Pooling, argmax_of_mask
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product

Array = np.ndarray[Any, Any]


def scattered(grad_output: Array, self: Array, indices: Array, **attributes: Any) -> Array:
    """Each pooled cell gives its gradient to the cell that its index, or its bit of the mask, names."""
    if indices.dtype == np.int8:
        windows = (attributes[each] for each in ("kernel_size", "stride", "padding", "ceil_mode"))
        pooling = Pooling.of(self.shape[-2:], *windows)
        indices = argmax_of_mask(indices, pooling, MaskLayout.INT32_PREFIX)
    gradient = np.zeros(self.shape)
    for pooled in np.ndindex(*grad_output.shape):
        row, column = divmod(int(indices[pooled]), self.shape[-1])
        gradient[(*pooled[:-2], row, column)] += np.float64(grad_output[pooled])
    return gradient


def gathered(axes: int) -> Callable[..., Array]:
    def oracle(grad_output: Array, self: Array, indices: Array, **_: Any) -> Array:
        """Each cell takes the gradient of the cell that it was written to."""
        gradient = np.zeros(self.shape, grad_output.dtype)
        for cell in np.ndindex(*indices.shape):
            gradient[cell] = grad_output[cell[:-axes]].reshape(-1)[indices[cell]]
        return gradient

    return oracle


def replicated(position: int, size: int) -> int:
    return 0 if position < 0 else size - 1 if position >= size else position


def reflected(position: int, size: int) -> int:
    """Walks back from the edge."""
    steps = list(range(size)) + list(range(size - 2, -1, -1))
    return steps[position] if position >= 0 else -position


def padded(source: Callable[[int, int], int]) -> Callable[..., Array]:
    def oracle(grad_output: Array, self: Array, padding: tuple[int, ...]) -> Array:
        """Each padded cell gives its gradient to the cell that it was filled from."""
        gradient = np.zeros(self.shape, np.complex128 if np.iscomplexobj(grad_output) else np.float64)
        axes = len(padding) // 2
        sizes, before = self.shape[-axes:], padding[::2][::-1]
        for cell in np.ndindex(*grad_output.shape):
            inside = zip(cell[-axes:], before, sizes, strict=True)
            target = tuple(source(at - low, size) for at, low, size in inside)
            gradient[cell[:-axes] + target] += grad_output[cell].astype(gradient.dtype)
        return gradient

    return oracle


ORACLES = {
    "max_pool2d_with_indices_backward": scattered,
    "max_pool2d_with_mask_backward": scattered,
    "max_unpool2d_backward": gathered(2),
    "max_unpool3d_backward": gathered(3),
    **{f"replication_pad{axes}d_backward": padded(replicated) for axes in (1, 2, 3)},
    **{f"reflection_pad{axes}d_backward": padded(reflected) for axes in (1, 2, 3)},
}
MOST_CELLS = 2**12


def small(name: str) -> list[TypedCase]:
    cases = reversed(list(typed_cases(Product.ATLAS_A2, name)))
    first = {(each.case.name, each.dtype.startswith("complex")): each for each in cases}
    return [each for each in first.values() if all(np.prod(shape) <= MOST_CELLS for shape in each.case.shapes.values())]


@pytest.mark.parametrize("typed", [each for name in ORACLES for each in small(name)], ids=str)
def test_a_definition_is_its_rule_cell_by_cell(typed: TypedCase) -> None:
    arrays = typed.arrays()
    found = reference.define(typed.spec.name, arrays, typed.case.attributes)
    expected = ORACLES[typed.spec.name](**arrays, **typed.attributes)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
