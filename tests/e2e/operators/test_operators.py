"""Every operator, remotely: the gradient is the one that the definition gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, first_cases, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.bounds import assert_near
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

FIRST = {str(typed): typed for typed in first_cases(Product.ATLAS_A2, every_dtype=True)}
CASES = FIRST | {str(typed): typed for typed in typed_cases(Product.ATLAS_A2)}
"""By their text, which is that of one case with one dtype."""


def assert_close(gradients: Any, typed: TypedCase) -> None:
    assert_near(typed, gradients, Product.ATLAS_A2)


@pytest.mark.parametrize("operator", OPERATORS)
async def test_gradients_of_the_named_method(client: AnyClient, operator: str) -> None:
    """With unread inputs as shapes."""
    for typed in FIRST.values():
        if typed.spec.name == operator:
            arrays = typed.arrays()
            arguments = {
                each.python_name: arrays[each.name].shape if each.unread_on is not None else arrays[each.name]
                for each in typed.spec.inputs
                if each.name in arrays
            }
            assert_close(await maybe_await(getattr(client, operator)(**arguments, **typed.case.attributes)), typed)


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
async def test_gradients_of_every_case_with_every_input_as_an_array(
    connect: Callable[..., AnyClient], server: Server, operator: str
) -> None:
    client = connect(server.address, shape_only=False)
    for typed in CASES.values():
        if typed.spec.name == operator:
            assert_close(await maybe_await(client.execute(operator, typed.arrays(), typed.case.attributes)), typed)


async def test_adaptive_average_pooling_by_hand(client: AnyClient) -> None:
    # Rows 0-1 and 1-2 of three overlap in row 1; each of the two columns is a window of its own.
    grad_output = np.array([[[2.0, 4.0], [6.0, 8.0]]], np.float32)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, (1, 3, 2)))
    assert gradient.tolist() == [[[1.0, 2.0], [4.0, 6.0], [3.0, 4.0]]]
    # It is the caller's own.
    gradient += 1
    assert gradient.tolist() == [[[2.0, 3.0], [5.0, 7.0], [4.0, 5.0]]]


async def test_strided_and_big_endian_arrays_are_sent_by_value(client: AnyClient) -> None:
    values = np.arange(2 * 3 * 8 * 6, dtype=np.float32).reshape(2, 3, 8, 6)[..., ::2, ::-1]
    expected = await maybe_await(client.adaptive_avg_pool2d_backward(values.copy(), (2, 3, 9, 7)))
    for given in (values, values.astype(">f4")):
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(given, (2, 3, 9, 7)))
        np.testing.assert_array_equal(gradient, expected)
