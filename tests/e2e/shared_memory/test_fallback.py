"""Where there is no room for shared memory calls go as ever; where the server takes none they are told so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import _shared_memory
from tests.e2e.shared_objects import Objects, open_files, sharing_server
from tools.calling import maybe_await
from tools.serving import Server

GRAD = np.random.default_rng(4).standard_normal((1, 16, 256, 256), np.float32)
SHAPE = (1, 16, 300, 300)
LARGE = np.random.default_rng(4).standard_normal((8, 1024, 1024), np.float32)
SIZES = {"message": (GRAD, SHAPE), "chunks": (LARGE, (8, 1030, 1000))}


async def plain_result(connect: Callable[..., Any], server: Server, given: tuple) -> np.ndarray:
    return await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(*given))


@pytest.mark.parametrize("given", SIZES.values(), ids=SIZES)
async def test_without_dev_shm(
    shared_server: Server, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: tuple
) -> None:
    monkeypatch.setattr(_shared_memory, "_FOLDER", str(tmp_path / "nothing"))
    client = connect(shared_server.address, shared_memory=True, max_message_bytes=2**24)
    result = await maybe_await(client.adaptive_avg_pool2d_backward(*given))
    assert np.array_equal(result, await plain_result(connect, shared_server, given))


class Room:
    """A /dev/shm that takes so many more bytes."""

    def __init__(self, room_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = room_bytes
        allocate = _shared_memory.os.posix_fallocate

        def limited(file: int, offset: int, size: int) -> None:
            if size > self.left:
                raise OSError(28, "No space left on device")
            self.left -= size
            allocate(file, offset, size)

        monkeypatch.setattr(_shared_memory.os, "posix_fallocate", limited)


@pytest.mark.parametrize("room_mib", [0, 4, 40])
@pytest.mark.parametrize("given", SIZES.values(), ids=SIZES)
async def test_a_full_dev_shm(
    shared_server: Server,
    connect: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    objects: Objects,
    given: tuple,
    room_mib: int,
) -> None:
    Room(room_mib * 2**20, monkeypatch)
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
    allocate = _shared_memory.os.posix_fallocate

    def once_full(file: int, offset: int, size: int) -> None:
        if not refused:
            refused.append(size)
            raise OSError(28, "No space left on device")
        allocate(file, offset, size)

    monkeypatch.setattr(_shared_memory.os, "posix_fallocate", once_full)
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


async def test_a_server_that_takes_none_says_so(tmp_path: Path, connect: Callable[..., Any], objects: Objects) -> None:
    with Server(listen=(f"unix:{tmp_path}/server",)) as server:
        client = connect(server.address, shared_memory=True)
        files = open_files(server)
        with pytest.raises(aclgrad.SharedMemoryUnavailableError, match="takes no shared memory") as caught:
            await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
        assert caught.value.reason == "SHARED_MEMORY_UNAVAILABLE"
        assert caught.value.remedy == "send the data itself, or start the server with --shared-memory"
        assert open_files(server) <= files + 1
        assert objects.names() == []


async def test_objects_of_another_user_are_refused(
    tmp_path: Path, connect: Callable[..., Any], objects: Objects
) -> None:
    with sharing_server(tmp_path, "--shared-memory-owner", "4711", "--shared-memory-owner", "4712") as server:
        with pytest.raises(aclgrad.InvalidFieldError, match="the server takes those of 4711, 4712"):
            await maybe_await(connect(server.address, shared_memory=True).adaptive_avg_pool2d_backward(GRAD, SHAPE))
        assert objects.names() == []


BAD = {
    "overflow": {"input_shape": (2**62, 2**62, 4, 4)},
    "no_numbers": {"input_shape": ("a", 1, 4, 4)},
    "no_integers": {"input_shape": (1.5, 1, 4, 4)},
    "negative": {"input_shape": (-1, -(2**30), 4, 4)},
}


@pytest.mark.parametrize("shared_memory", [False, True], ids=["message", "shared"])
@pytest.mark.parametrize("attributes", BAD.values(), ids=BAD)
async def test_an_output_that_cannot_be_is_a_typed_error(
    shared_server: Server, connect: Callable[..., Any], attributes: dict[str, Any], shared_memory: bool
) -> None:
    client = connect(shared_server.address, shared_memory=shared_memory)
    inputs = {"grad_output": np.ones((1, 1, 2, 2), np.float32), "boxes": np.zeros((1, 5), np.float32)}
    with pytest.raises((aclgrad.InvalidFieldError, aclgrad.LimitExceededError)):
        await maybe_await(client.execute("roi_align_v2_backward", inputs, attributes | {"pooled_height": 2}))


def test_a_reply_that_is_too_large_for_a_message_comes_in_chunks(
    tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    Room(2**20, monkeypatch)  # for the input alone
    with (
        sharing_server(tmp_path, "--max-message-bytes", "100000") as server,
        aclgrad.Client(server.address, shared_memory=True, retries=0) as client,
    ):
        gradient = client.adaptive_avg_pool2d_backward(np.ones((1, 200, 200), np.float32), (1, 1000, 1000))
        assert np.all(gradient == np.float32(1 / 25))
