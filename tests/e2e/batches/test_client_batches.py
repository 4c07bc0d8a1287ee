"""`client.batch()` of both clients: what each call gives is what it gives alone."""

from collections.abc import Callable

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import arrays_of, first_cases
from aclgrad.products import Product
from tests.bounds import bits_of
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

Connect = Callable[..., AnyClient]
CASES = list(first_cases(Product.ATLAS_A2, every_dtype=True))
"""One case of each operator with every dtype."""
GRAD = np.ones((1, 2, 2), np.float32)


async def test_every_dtype_gives_the_bits_of_a_call_of_its_own(connect: Connect, shared_server: Server) -> None:
    client = connect(shared_server.address)
    batch = client.batch()
    alone = []
    for typed in CASES:
        batch.execute(typed.spec.name, typed.arrays(), typed.case.attributes)
        alone.append(await maybe_await(client.execute(typed.spec.name, typed.arrays(), typed.case.attributes)))
    assert {typed.spec.name for typed in CASES} == {each.name for each in await maybe_await(client.list_operators())}
    for gradient, expected in zip(await maybe_await(batch.run()), alone, strict=True):
        assert bits_of(gradient) == bits_of(expected)
        assert all(each.flags.owndata and each.flags.writeable for each in arrays_of(gradient))


async def test_one_bad_call_among_good_ones(connect: Connect, shared_server: Server) -> None:
    batch = connect(shared_server.address).batch()
    for number in range(64):
        batch.adaptive_avg_pool2d_backward(number * GRAD, (1, 4, 4) if number != 40 else (2, 4, 4))
    outcomes = await maybe_await(batch.run(return_errors=True))
    error = outcomes.pop(40)
    assert isinstance(error, aclgrad.InvalidFieldError)
    assert error.request_id
    assert [each.sum() for each in outcomes] == [4 * number for number in range(64) if number != 40]
    with pytest.raises(aclgrad.InvalidFieldError):
        await maybe_await(batch.run())
