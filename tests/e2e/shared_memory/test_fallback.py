"""Where there is no room for shared memory calls go as ever; where the server takes none they are told so."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.e2e.shared_objects import Objects
from tools.calling import maybe_await
from tools.serving import Server

GRAD = np.random.default_rng(4).standard_normal((1, 16, 256, 256), np.float32)
SHAPE = (1, 16, 300, 300)
LARGE = np.random.default_rng(4).standard_normal((8, 1024, 1024), np.float32)


async def plain_result(connect: Callable[..., Any], server: Server, given: tuple[Any, ...]) -> np.ndarray:
    return await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(*given))


class FreeSpace:
    """A /dev/shm that takes so many more bytes."""

    def __init__(self, free_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = free_bytes
        allocate = os.posix_fallocate

        def limited(file: int, offset: int, size: int) -> None:
            if size > self.left:
                raise OSError(28, "No space left on device")
            self.left -= size
            allocate(file, offset, size)

        monkeypatch.setattr(os, "posix_fallocate", limited)


@pytest.mark.parametrize(
    ("given", "free_mib"),
    [
        pytest.param((GRAD, SHAPE), 4, id="message_without_room_for_the_output"),
        pytest.param((LARGE, (8, 1030, 1000)), 40, id="chunks_without_room_for_the_output"),
        # As without /dev/shm.
        pytest.param((GRAD, SHAPE), 0, id="message_without_room"),
    ],
)
async def test_a_full_dev_shm(
    shared_server: Server,
    connect: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    objects: Objects,
    given: tuple[Any, ...],
    free_mib: int,
) -> None:
    FreeSpace(free_mib * 2**20, monkeypatch)
    client = connect(shared_server.address, shared_memory=True)
    expected = await plain_result(connect, shared_server, given)
    for _ in range(2):
        result = await maybe_await(client.adaptive_avg_pool2d_backward(*given))
        assert np.array_equal(result, expected)
    await maybe_await(client.close())
    assert objects.names() == []


async def test_what_is_kept_for_other_sizes_makes_room(
    shared_server: Server, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, objects: Objects
) -> None:
    client = connect(shared_server.address, shared_memory=True)
    await maybe_await(client.adaptive_avg_pool2d_backward(LARGE, (8, 1030, 1000)))
    (before,) = {len(objects.names())}
    refused = []
    allocate = os.posix_fallocate

    def once_full(file: int, offset: int, size: int) -> None:
        if not refused:
            refused.append(size)
            raise OSError(28, "No space left on device")
        allocate(file, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", once_full)
    result = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert np.array_equal(result, await plain_result(connect, shared_server, (GRAD, SHAPE)))
    assert (before, len(objects.names()), len(refused)) == (2, 2, 1)


async def test_over_tcp_it_is_an_error(shared_server: Server, connect: Callable[..., Any], objects: Objects) -> None:
    client = connect(shared_server.addresses[1], shared_memory=True)
    with pytest.raises(aclgrad.SharedMemoryUnavailableError, match="needs a unix socket") as caught:
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert caught.value.reason == "SHARED_MEMORY_UNAVAILABLE"
    assert caught.value.remedy == "connect to a unix: address of the server, or send the data itself"
    assert objects.names() == []
    # What is too small for shared memory does not need any.
    assert (await maybe_await(client.adaptive_avg_pool2d_backward(GRAD[:, :1, :2, :2], (1, 1, 4, 4)))).shape[-1] == 4
