"""A gradient that can be checked by hand, and many callers at once, of whom each gets its own, bit for bit."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tests.bounds import bits_of
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

THREADS = 8
REQUESTS = [
    (typed.spec.name, typed.arrays(), typed.case.attributes)
    for typed in first_cases(Product.ATLAS_A2, every_dtype=True)
]


async def test_adaptive_average_pooling_by_hand(client: AnyClient) -> None:
    # Rows 0-1 and 1-2 of three overlap in row 1; each of the two columns is a window of its own.
    grad_output = np.array([[[2.0, 4.0], [6.0, 8.0]]], np.float32)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, (1, 3, 2)))
    assert gradient.tolist() == [[[1.0, 2.0], [4.0, 6.0], [3.0, 4.0]]]
    # It is the caller's own.
    gradient += 1
    assert gradient.tolist() == [[[2.0, 3.0], [5.0, 7.0], [4.0, 5.0]]]


@pytest.fixture(scope="module")
def alone(server: Server) -> Iterator[list[Any]]:
    with aclgrad.Client(server.address) as client:
        yield [bits_of(client.execute(*request)) for request in REQUESTS]


@pytest.mark.parametrize("is_shared", [True, False], ids=["one_client", "own_clients"])
def test_threads(server: Server, alone: list[Any], is_shared: bool) -> None:
    """Each calls in an order of its own."""

    def differing(thread: int) -> list[int]:
        chosen = np.random.default_rng(thread).permutation(len(REQUESTS))[:40]
        with aclgrad.Client(server.address) as own:
            client = shared if is_shared else own
            return [index for index in chosen if bits_of(client.execute(*REQUESTS[index])) != alone[index]]

    with aclgrad.Client(server.address) as shared, ThreadPoolExecutor(THREADS) as threads:
        assert [*threads.map(differing, range(THREADS))] == [[]] * THREADS


async def test_tasks_share_a_client(server: Server, alone: list[Any]) -> None:
    async with aclgrad.AsyncClient(server.address) as client:
        results = await asyncio.gather(*(client.execute(*request) for request in REQUESTS * 3))
    assert [bits_of(each) for each in results] == alone * 3
