"""Every operator, remotely: the gradient is the one that the definition gives."""

import functools
from collections.abc import Callable

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

CASES: dict[str, list[TypedCase]] = {}
for each in typed_cases(Product.ATLAS_A2):
    CASES.setdefault(each.spec.name, []).append(each)


@functools.cache
def truth_of(name: str) -> np.ndarray:
    """Returns the gradient of a case by its text; several tests compare with each."""
    typed = next(each for cases in CASES.values() for each in cases if str(each) == name)
    return reference.define(typed.spec.name, typed.arrays(), typed.case.attributes)


def assert_close(gradient: np.ndarray, typed: TypedCase) -> None:
    truth = truth_of(str(typed))
    tolerance = typed.spec.tolerance(Product.ATLAS_A2, typed.dtype)
    assert (gradient.dtype.name, gradient.shape) == (typed.dtype, truth.shape), str(typed)
    if tolerance == Tolerance(0.0, 0.0):
        # Nothing was computed: no bit may differ.
        np.testing.assert_array_equal(gradient, truth, str(typed))
    else:
        allowed = tolerance.absolute + tolerance.relative * np.abs(truth)
        assert (np.abs(gradient.astype(truth.dtype) - truth) <= allowed).all(), str(typed)


@pytest.mark.parametrize("operator", CASES)
async def test_gradients_with_every_input_as_an_array(
    connect: Callable[..., AnyClient], server: Server, operator: str
) -> None:
    client = connect(server.address, shape_only=False)
    for typed in CASES[operator]:
        assert_close(await maybe_await(client.execute(operator, typed.arrays(), typed.case.attributes)), typed)


@pytest.mark.parametrize("operator", CASES)
async def test_gradients_with_unread_inputs_as_shapes(client: AnyClient, operator: str) -> None:
    for typed in CASES[operator]:
        unread = {each.name for each in typed.spec.inputs if each.unread_on is not None}
        inputs = {name: array.shape if name in unread else array for name, array in typed.arrays().items()}
        assert_close(await maybe_await(client.execute(operator, inputs, typed.case.attributes)), typed)


@pytest.mark.parametrize("operator", CASES)
async def test_gradients_of_the_named_method(client: AnyClient, operator: str) -> None:
    for typed in CASES[operator]:
        if typed.dtype == "float32":
            python_names = {each.name: each.python_name for each in typed.spec.inputs}
            arguments = {python_names[name]: array for name, array in typed.arrays().items()}
            method = getattr(client, operator)
            assert_close(await maybe_await(method(**arguments, **typed.case.attributes)), typed)


async def test_adaptive_average_pooling_by_hand(client: AnyClient) -> None:
    # Rows 0-1 and 1-2 of three overlap in row 1; each of the two columns is a window of its own.
    grad_output = np.array([[[2.0, 4.0], [6.0, 8.0]]], np.float32)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, (1, 3, 2)))
    assert gradient.tolist() == [[[1.0, 2.0], [4.0, 6.0], [3.0, 4.0]]]


async def test_strided_and_big_endian_arrays_are_sent_by_value(client: AnyClient) -> None:
    values = np.arange(2 * 3 * 8 * 6, dtype=np.float32).reshape(2, 3, 8, 6)
    expected = await maybe_await(client.adaptive_avg_pool2d_backward(values[..., ::2, ::-1].copy(), (2, 3, 9, 7)))
    strided = await maybe_await(client.adaptive_avg_pool2d_backward(values[..., ::2, ::-1], (2, 3, 9, 7)))
    swapped = values[..., ::2, ::-1].astype(">f4")
    big_endian = await maybe_await(client.adaptive_avg_pool2d_backward(swapped, (2, 3, 9, 7)))
    np.testing.assert_array_equal(strided, expected)
    np.testing.assert_array_equal(big_endian, expected)


async def test_the_result_is_writable_and_of_its_own(client: AnyClient) -> None:
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2)))
    gradient += 1
    assert gradient.tolist() == [[[1.25, 1.25], [1.25, 1.25]]]
