"""Many callers at once, on one client: each gets its own gradient, bit for bit."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import calls_in
from tools.serving import Server

SHAPES = [(2, 3, 17, 19), (1, 1, 64, 64), (4, 2, 5, 31), (3, 40, 41)]
CALLERS = 12


def gradients(count: int) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """Returns the arguments of calls that all differ."""
    generator = np.random.default_rng(7)
    shapes = [SHAPES[index % len(SHAPES)] for index in range(count)]
    return [(generator.standard_normal((*shape[:-2], 6, 5), np.float32), shape) for shape in shapes]


@pytest.fixture(scope="module")
def expected(server: Server) -> list[bytes]:
    with aclgrad.Client(server.address) as client:
        return [client.adaptive_avg_pool2d_backward(*each).tobytes() for each in gradients(CALLERS)]


def test_threads_share_a_client(server: Server, expected: list[bytes]) -> None:
    start = threading.Barrier(CALLERS)

    def call(arguments: Any) -> list[bytes]:
        start.wait(60)
        return [client.adaptive_avg_pool2d_backward(*arguments).tobytes() for _ in range(10)]

    with aclgrad.Client(server.address) as client, ThreadPoolExecutor(CALLERS) as threads:
        for results, right in zip(threads.map(call, gradients(CALLERS)), expected, strict=True):
            assert set(results) == {right}


async def test_tasks_share_a_client(server: Server, expected: list[bytes]) -> None:
    async with aclgrad.AsyncClient(server.address) as client:
        calls = [client.adaptive_avg_pool2d_backward(*each) for _ in range(5) for each in gradients(CALLERS)]
        results = await asyncio.gather(*calls)
    assert [each.tobytes() for each in results] == expected * 5


def test_results_do_not_depend_on_the_number_of_threads(tmp_path: Any, expected: list[bytes]) -> None:
    config = tmp_path / "acl.json"
    config.write_text('{"host": {"threads": 1}}')
    with Server("--acl-config", str(config)) as server, aclgrad.Client(server.address) as client:
        results = [client.adaptive_avg_pool2d_backward(*each).tobytes() for each in gradients(CALLERS)]
    assert results == expected


def test_calls_beyond_the_bound_are_refused_or_answered() -> None:
    with (
        Server("--streams", "1", "--max-waiting-calls", "1") as server,
        aclgrad.Client(server.address, retries=0) as client,
        ThreadPoolExecutor(16) as threads,
    ):
        start = threading.Barrier(16)

        def call(_: int) -> np.ndarray | aclgrad.ServerBusyError:
            start.wait(60)
            try:
                return client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 1024, 1024))
            except aclgrad.ServerBusyError as error:
                return error

        outcomes = list(threads.map(call, range(16)))
        refused = [each for each in outcomes if isinstance(each, aclgrad.ServerBusyError)]
        answered = [each for each in outcomes if isinstance(each, np.ndarray)]
        assert answered
        assert all(each.sum() == pytest.approx(1) for each in answered)
        assert all(each.retry_after_s and each.metadata["limit"] == "2" for each in refused)
        status = client.server_status()
        assert calls_in(status.queue) == 0
