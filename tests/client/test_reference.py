"""The definitions, checked by what they are the gradients of."""

from itertools import pairwise

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product

CASES = [case for case in typed_cases(Product.ATLAS_A2) if case.dtype == "float32"]
POOLING = [case for case in CASES if case.spec.name == "adaptive_avg_pool2d_backward"]


def adaptive_average_pool(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Returns the mean of every window; an empty window has the mean 0."""

    def windows(size: int, count: int) -> list[slice]:
        edges = np.arange(count + 1) * size / max(count, 1)
        return [slice(int(np.floor(low)), int(np.ceil(high))) for low, high in pairwise(edges)]

    pooled = np.zeros((*values.shape[:-2], rows, columns))
    for i, tall in enumerate(windows(values.shape[-2], rows)):
        for j, wide in enumerate(windows(values.shape[-1], columns)):
            window = values[..., tall, wide]
            if window.shape[-1] * window.shape[-2]:
                pooled[..., i, j] = window.mean(axis=(-2, -1))
    return pooled


def differences(shape: tuple[int, ...], grad_output: np.ndarray) -> np.ndarray:
    """Returns the gradient of sum(grad_output * pool(x)), whose differences are exact, since it is linear in x."""
    gradient = np.zeros(shape)
    for cell in np.ndindex(shape[-2:]):
        # One plane serves all batches and channels: pooling keeps them apart.
        plane = np.zeros(shape[-2:])
        plane[cell] = 1
        step = adaptive_average_pool(plane, *grad_output.shape[-2:])
        step -= adaptive_average_pool(-plane, *grad_output.shape[-2:])
        gradient[(..., *cell)] = (grad_output * step).sum(axis=(-2, -1)) / 2
    return gradient


@pytest.mark.parametrize("typed", POOLING, ids=str)
def test_adaptive_average_pooling_is_the_gradient_of_its_forward(typed: TypedCase) -> None:
    grad_output = typed.arrays()["grad_output"].astype(np.float64)
    gradient = reference.adaptive_avg_pool2d_backward(grad_output, typed.arrays()["self"])
    expected = differences(typed.case.shapes["self"], grad_output)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("typed", CASES, ids=str)
def test_shape_stands_for_an_unread_input(typed: TypedCase) -> None:
    arrays = dict(typed.arrays())
    full = reference.define(typed.spec.name, arrays, typed.case.attributes)
    shapes = {each.name: arrays[each.name].shape for each in typed.spec.inputs if each.unread_on}
    np.testing.assert_array_equal(reference.define(typed.spec.name, arrays | shapes, typed.case.attributes), full)
    if typed.spec.name == "max_unpool3d_backward":
        assert full.dtype == arrays["grad_output"].dtype  # values move and are never computed with
    else:
        assert full.dtype == (np.complex128 if np.iscomplexobj(arrays["grad_output"]) else np.float64)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_definition(name: str) -> None:
    assert callable(getattr(reference, name))
