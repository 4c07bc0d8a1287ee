"""Results in shared memory stay as they are, and the smallest tensors go without."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.e2e.shared_objects import Objects
from tools.calling import maybe_await
from tools.serving import Server

LARGE = np.random.default_rng(7).standard_normal((4, 16, 96, 96), np.float32)


def pad(client: Any, grad_output: np.ndarray = LARGE) -> Any:
    return client.replication_pad2d_backward(grad_output, (4, 16, 92, 92), padding=(2, 2, 2, 2))


@pytest.mark.parametrize("size", [4, 127, 128, 1400])
async def test_sizes_on_either_side_of_every_threshold(
    shared_server: Server, connect: Callable[..., Any], objects: Objects, size: int
) -> None:
    grad_output = np.random.default_rng(size).standard_normal((1, size, size), np.float32)
    given = ("adaptive_avg_pool2d_backward", {"grad_output": grad_output, "self": (1, size + 3, size)})
    expected = await maybe_await(connect(shared_server.address).execute(*given))
    result = await maybe_await(connect(shared_server.address, shared_memory=True).execute(*given))
    assert result.tobytes() == expected.tobytes()
    # The output is three rows larger: at 127 it alone is of 64 KiB and more.
    assert len(objects.names()) == (size >= 127) + (size >= 128)


def test_results_of_many_threads_stay_what_they_were(shared_server: Server, objects: Objects) -> None:
    factors = [np.float32(2.0 ** (index % 16 - 8)) for index in range(48)]
    with aclgrad.Client(shared_server.address) as plain:
        expected = pad(plain)
    with aclgrad.Client(shared_server.address, shared_memory=True) as client, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda factor: pad(client, LARGE * factor), factors))
        # What nobody holds any more is used again, and no more than a few objects are kept.
        assert len(objects.names()) >= len(factors)
        del results[8:]
        pad(client)
        assert len(objects.names()) <= len(results) + 17
    assert objects.names() == []
    # Powers of two scale without rounding.
    for factor, result in zip(factors, results, strict=False):
        assert result.flags.writeable
        assert np.array_equal(result, expected * factor)
