"""Many callers at once: each gets its own gradient, bit for bit."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import aclgrad
from aclgrad.operators.cases import TypedCase
from aclgrad.products import Product
from tests.bounds import bits_of
from tests.e2e.operators.test_operators import FIRST
from tools.serving import Server

THREADS = 8
CALLS = 20
"""Of each thread."""

Request = tuple[str, dict[str, Any], dict[str, Any]]


def requests_of(typed: TypedCase) -> Iterator[Request]:
    """Yields the call, and if the operator reads less than it takes, the call that sends no more than that."""
    arrays, attributes = typed.arrays(), dict(typed.case.attributes)
    yield typed.spec.name, arrays, attributes
    unread = {each.name for each in typed.spec.inputs if Product.ATLAS_A2 in (each.unread_on or ())}
    if unread and not any(each.read_for(typed.arguments) for each in typed.spec.inputs):
        inputs = {name: array.shape if name in unread else array for name, array in arrays.items()}
        yield typed.spec.name, inputs, attributes


def replies_of(client: aclgrad.Client, requests: list[Request]) -> list[Any]:
    return [bits_of(client.execute(*request, timeout_s=60)) for request in requests]


def differing(address: str, requests: list[Request], alone: list[Any], threads: int, calls: int) -> list[int]:
    """Returns the indices of requests whose replies have other bits when threads call in orders of their own."""
    start = threading.Barrier(threads)

    def call_in_an_order_of_its_own(thread: int) -> list[int]:
        chosen = np.random.default_rng(thread).integers(0, len(requests), calls)
        with aclgrad.Client(address, shape_only=False) as client:
            start.wait(60)
            replies = replies_of(client, [requests[index] for index in chosen])
        return [index for index, reply in zip(chosen, replies, strict=True) if reply != alone[index]]

    with ThreadPoolExecutor(threads) as pool:
        return [index for each in pool.map(call_in_an_order_of_its_own, range(threads)) for index in each]


def test_clients_of_several_threads(server: Server) -> None:
    requests = [request for typed in FIRST.values() for request in requests_of(typed)]
    with aclgrad.Client(server.address, shape_only=False) as client:
        alone = replies_of(client, requests)
    assert differing(server.address, requests, alone, THREADS, CALLS) == []


def test_threads_share_a_client(server: Server) -> None:
    requests = [request for typed in FIRST.values() if typed.dtype == "float32" for request in requests_of(typed)]
    with aclgrad.Client(server.address) as client, ThreadPoolExecutor(THREADS) as threads:
        alone = replies_of(client, requests)
        for results in threads.map(lambda _: replies_of(client, requests), range(THREADS)):
            assert results == alone


async def test_tasks_share_a_client(server: Server) -> None:
    requests = [request for typed in FIRST.values() if typed.dtype == "float32" for request in requests_of(typed)]
    async with aclgrad.AsyncClient(server.address) as client:
        alone = [bits_of(await client.execute(*request)) for request in requests]
        results = await asyncio.gather(*(client.execute(*request) for request in requests * 5))
    assert [bits_of(each) for each in results] == alone * 5
