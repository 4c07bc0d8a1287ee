"""AsyncClient and its event loop: what it does not do there, whose cancellation is whose, and which loop it is."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.errors import to_status
from tests.serving import Server

from .scripted_service import REPLY, ScriptedService, abort_with

SHAPE = (8, 1024, 1024)
"""32 MiB of float32."""
SMALL = np.ones((1, 1, 1), np.float32)


class Convertible:
    """What becomes an array only when it is asked to, and notes the threads that ask."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._values = np.ones(shape, np.float32)
        self.nbytes = self._values.nbytes
        self.threads: set[int] = set()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.threads.add(threading.get_ident())
        return self._values


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    target = f"unix:{tmp_path_factory.mktemp('shared')}/socket"
    with Server("--shared-memory", listen=[target]):
        yield target


async def test_arrays_are_converted_in_a_thread(server: Server) -> None:
    array = Convertible(SHAPE)
    async with aclgrad.AsyncClient(server.address) as client:
        await client.adaptive_avg_pool2d_backward(array, SHAPE)  # type: ignore[arg-type]
    assert array.threads
    assert threading.get_ident() not in array.threads


async def test_withheld_arrays_are_converted_in_a_thread(service: ScriptedService) -> None:
    """When the server asks for their values."""
    required = to_status(aclgrad.InputValuesRequiredError("send the array"), "5f0c").SerializeToString()
    failing = abort_with(grpc.StatusCode.FAILED_PRECONDITION, "send the array", required)
    service.answer = lambda context: REPLY if len(service.requests) > 1 else failing(context)
    array = Convertible((1, 600, 1000))
    async with aclgrad.AsyncClient(service.address) as client:
        await client.adaptive_avg_pool2d_backward(SMALL, array)  # type: ignore[arg-type]
    assert len(service.requests) == 2
    assert threading.get_ident() not in array.threads


async def test_shared_memory_is_filled_in_a_thread(shared_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    fallocate = os.posix_fallocate

    def noting(*arguments: Any) -> None:
        threads.add(threading.get_ident())
        fallocate(*arguments)

    monkeypatch.setattr(os, "posix_fallocate", noting)
    array = np.ones(SHAPE, np.float32)
    async with aclgrad.AsyncClient(shared_server, shared_memory=True) as client:
        assert (await client.adaptive_avg_pool2d_backward(array, SHAPE)).shape == SHAPE
    assert threads
    assert threading.get_ident() not in threads


async def test_a_caller_that_leaves_while_shared_memory_is_filled(
    shared_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    fallocate = os.posix_fallocate

    def slow(*arguments: Any) -> None:
        begun.set()
        go_on.wait(60)
        fallocate(*arguments)

    monkeypatch.setattr(os, "posix_fallocate", slow)
    array = np.ones(SHAPE, np.float32)
    before = set(Path("/dev/shm").glob("aclgrad-*"))
    async with aclgrad.AsyncClient(shared_server, shared_memory=True) as client:
        task = asyncio.create_task(client.adaptive_avg_pool2d_backward(array, SHAPE))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        # The only pool of threads: when it has nothing to do, the region has been given up.
        await asyncio.get_running_loop().shutdown_default_executor()
        assert set(Path("/dev/shm").glob("aclgrad-*")) <= before


def hold(service: ScriptedService) -> None:
    """Has the service answer no call before it has ended."""

    def answer(context: grpc.ServicerContext) -> bytes:
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(60)
        return REPLY

    service.answer = answer


LARGE = np.ones((1, 600, 1000), np.float32)
"""More than goes by the short way."""


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["small", "large"])
async def test_a_task_that_is_cancelled_and_whose_client_is_closed_then(
    service: ScriptedService, array: np.ndarray
) -> None:
    hold(service)
    client = aclgrad.AsyncClient(service.address, timeout_s=None)
    task = asyncio.create_task(client.execute("pool", {"a": array}))
    while not service.requests:
        await asyncio.sleep(0.001)
    task.cancel()
    await client.close()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["small", "large"])
async def test_a_timeout_of_asyncio_stays_one(service: ScriptedService, array: np.ndarray) -> None:
    """Though the client is closed before the task learns of its cancellation."""
    hold(service)
    client = aclgrad.AsyncClient(service.address, timeout_s=None)
    loop = asyncio.get_running_loop()
    closing: list[asyncio.Task[None]] = []
    end = loop.time() + 0.3
    # The loop stands still until both that close the client and the timeout are due, in this order.
    loop.call_at(end - 0.02, time.sleep, 0.1)
    loop.call_at(end - 0.01, lambda: closing.append(asyncio.create_task(client.close())))
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout_at(end):
            await client.execute("pool", {"a": array})
    assert type(caught.value) is TimeoutError
    assert len(service.requests) == 1
    await closing[0]


async def test_closing_still_ends_a_call_as_cancelled(service: ScriptedService) -> None:
    hold(service)
    client = aclgrad.AsyncClient(service.address, timeout_s=None)
    tasks = [asyncio.create_task(client.execute("pool", {"a": array})) for array in (SMALL, LARGE)]
    while len(service.requests) < 2:
        await asyncio.sleep(0.001)
    await client.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [aclgrad.CallCancelledError] * 2


def test_a_client_that_is_made_outside_of_a_loop_works_in_the_first(service: ScriptedService) -> None:
    client = aclgrad.AsyncClient(service.address)

    async def use() -> None:
        await client.execute("pool", {"a": SMALL})
        await client.close()

    asyncio.run(use())
    assert len(service.requests) == 1


@pytest.mark.parametrize("action", ["execute", "close"])
def test_another_loop_is_refused_in_our_words(service: ScriptedService, action: str) -> None:
    client = aclgrad.AsyncClient(service.address)
    call: Callable[[], Any] = lambda: client.execute("pool", {"a": SMALL})  # noqa: E731
    asyncio.run(call_once(call))
    again = call if action == "execute" else client.close
    with pytest.raises(aclgrad.WrongEventLoopError, match=r"another event loop; make one AsyncClient for each"):
        asyncio.run(call_once(again))


async def call_once(call: Callable[[], Any]) -> None:
    await call()


def test_a_client_that_was_never_used_is_closed_anywhere() -> None:
    client = aclgrad.AsyncClient()
    asyncio.run(client.close())
