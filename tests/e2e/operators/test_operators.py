"""Every operator, remotely: the gradient is the one that the definition gives."""

import numpy as np

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tests.bounds import assert_near
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

FIRST = {str(typed): typed for typed in first_cases(Product.ATLAS_A2, every_dtype=True)}


def test_gradients_of_the_named_methods(server: Server) -> None:
    """With unread inputs as shapes. tests/abi has all cases."""
    with aclgrad.Client(server.address) as client:
        for typed in FIRST.values():
            arrays = typed.arrays()
            arguments = {
                each.python_name: arrays[each.name].shape if each.unread_on is not None else arrays[each.name]
                for each in typed.spec.inputs
                if each.name in arrays
            }
            found = getattr(client, typed.spec.name)(**arguments, **typed.case.attributes)
            assert_near(typed, found, Product.ATLAS_A2)


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
