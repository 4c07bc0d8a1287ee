"""AsyncClient and its event loop: what it does not do there, whose cancellation is whose, and which loop it is."""

import asyncio
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.aio.transport import in_thread
from aclgrad._client.calls.destination import OutputBuffer
from aclgrad._client.settings.checks import TimeLimitError
from aclgrad.wire import service

from .scripted_service import REPLY, ScriptedService, failing

SHAPE = (3, 1024, 1024)
"""12 MiB of float32."""
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


async def test_arrays_are_converted_in_a_thread(echo: str) -> None:
    array = Convertible(SHAPE)
    async with aclgrad.AsyncClient(echo) as client:
        await client.adaptive_avg_pool2d_backward(array, SHAPE)  # type: ignore[arg-type]
    assert array.threads
    assert threading.get_ident() not in array.threads


async def test_withheld_arrays_are_converted_in_a_thread(service: ScriptedService) -> None:
    """When the server asks for their values."""
    required = failing(aclgrad.InputValuesRequiredError("send the array"))
    service.answer = lambda context: REPLY if len(service.requests) > 1 else required(context)
    array = Convertible((1, 600, 1000))
    async with aclgrad.AsyncClient(service.address) as client:
        await client.adaptive_avg_pool2d_backward(SMALL, array)  # type: ignore[arg-type]
    assert len(service.requests) == 2
    assert threading.get_ident() not in array.threads


async def test_shared_memory_is_filled_in_a_thread(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    fallocate = os.posix_fallocate

    def noting(*arguments: Any) -> None:
        threads.add(threading.get_ident())
        fallocate(*arguments)

    monkeypatch.setattr(os, "posix_fallocate", noting)
    array = np.ones(SHAPE, np.float32)
    async with aclgrad.AsyncClient(echo, shared_memory=True) as client:
        assert (await client.adaptive_avg_pool2d_backward(array, SHAPE)).shape == SHAPE
    assert threads
    assert threading.get_ident() not in threads


@pytest.fixture
def copying_threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Notes the threads that copy a gradient to where it belongs."""
    threads = set()
    take = OutputBuffer.take

    def noting(self: OutputBuffer, gradient: np.ndarray) -> np.ndarray:
        if self.copies(gradient):
            threads.add(threading.get_ident())
        return take(self, gradient)

    monkeypatch.setattr(OutputBuffer, "take", noting)
    return threads


@pytest.mark.parametrize("way", ["shared_memory", "chunks_to_scattered_memory"])
async def test_gradients_are_copied_to_out_in_a_thread(echo: str, copying_threads: set[int], way: str) -> None:
    is_shared = way == "shared_memory"
    out = np.zeros(SHAPE, np.float32) if is_shared else np.zeros((*SHAPE[:2], 2 * SHAPE[2]), np.float32)[:, :, ::2]
    async with aclgrad.AsyncClient(echo, shared_memory=is_shared) as client:
        assert await client.adaptive_avg_pool2d_backward(np.ones((3, 1, 1), np.float32), SHAPE, out=out) is out
    assert (out == 1).all()
    assert copying_threads
    assert threading.get_ident() not in copying_threads


@pytest.mark.parametrize(
    ("module", "step"), [(OutputBuffer, "take"), (os, "posix_fallocate")], ids=["copied", "filled"]
)
async def test_a_caller_that_leaves_while_shared_memory_is_used(
    echo: str, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    original = getattr(module, step)

    def slow(*arguments: Any) -> Any:
        begun.set()
        go_on.wait(60)
        return original(*arguments)

    monkeypatch.setattr(module, step, slow)
    array, out = np.ones(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    # Other processes have objects of theirs.
    own = f"{service.SHARED_PREFIX}{secrets.token_hex(6)}-"
    monkeypatch.setattr(service, "SHARED_PREFIX", own)
    async with aclgrad.AsyncClient(echo, shared_memory=True) as client:
        task = asyncio.create_task(client.adaptive_avg_pool2d_backward(array, SHAPE, out=out))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        # The only pool of threads: when it has nothing to do, a region that was not filled has been given up.
        await asyncio.get_running_loop().shutdown_default_executor()
        assert module is not os or not list(Path(service.SHARED_FOLDER).glob(f"{own}*"))
    assert not list(Path(service.SHARED_FOLDER).glob(f"{own}*"))


@pytest.fixture
async def busy_executor() -> AsyncIterator[None]:
    """Has the loop's executor one thread, which is busy."""
    released = threading.Event()
    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    executor.submit(released.wait, 60)
    yield
    released.set()


@pytest.mark.usefixtures("busy_executor")
@pytest.mark.parametrize("kind", ["conversion", "message", "shared_memory"])
async def test_the_time_limit_covers_the_wait_for_a_thread(echo: str, kind: str) -> None:
    reports: list[aclgrad.CallReport] = []
    array: Any = Convertible(LARGE.shape) if kind == "conversion" else LARGE
    is_shared = kind == "shared_memory"
    async with aclgrad.AsyncClient(echo, shared_memory=is_shared, on_call=reports.append) as client:
        with pytest.raises(aclgrad.DeadlinePassedError, match=r"timeout_s was 0\.2 s"):
            async with asyncio.timeout(30):
                await client.adaptive_avg_pool2d_backward(array, LARGE.shape, timeout_s=0.2)
    (report,) = reports
    assert isinstance(report.error, aclgrad.DeadlinePassedError)
    assert 0.15 < report.seconds < 30


@pytest.mark.usefixtures("busy_executor")
async def test_the_time_limit_covers_the_wait_for_a_thread_that_amends(service: ScriptedService) -> None:
    service.answer = failing(aclgrad.InputValuesRequiredError("send the array"))
    async with aclgrad.AsyncClient(service.address) as client:
        with pytest.raises(aclgrad.DeadlinePassedError, match=r"timeout_s was 0\.5 s"):
            async with asyncio.timeout(30):
                await client.adaptive_avg_pool2d_backward(SMALL, np.ones((1, 2, 2), np.float32), timeout_s=0.5)
    assert len(service.requests) == 1


@pytest.mark.usefixtures("busy_executor")
async def test_an_error_needs_no_thread(service: ScriptedService) -> None:
    busy = failing(aclgrad.ServerBusyError("busy", retry_after_s=0.01))
    service.answer = lambda context: REPLY if len(service.requests) > 1 else busy(context)
    async with aclgrad.AsyncClient(service.address, timeout_s=None) as client, asyncio.timeout(30):
        await client.execute("pool", {"a": SMALL})
    assert len(service.requests) == 2


async def test_work_that_has_begun_is_waited_for_beyond_the_time_limit() -> None:
    """It may write to an array of the caller."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait(60)
        return "done"

    waiting = asyncio.ensure_future(in_thread(work, 0.05))
    await asyncio.to_thread(begun.wait, 60)
    await asyncio.wait([waiting], timeout=0.1)
    assert not waiting.done()
    go_on.set()
    assert await waiting == "done"


@pytest.mark.usefixtures("busy_executor")
async def test_work_that_was_given_up_never_begins() -> None:
    begun = threading.Event()
    with pytest.raises(TimeLimitError):
        await in_thread(begun.set, 0.0)
    assert not begun.is_set()


def hold(service: ScriptedService) -> threading.Event:
    """Has the service answer no call before it has ended, which the event tells."""
    ended = threading.Event()

    def answer(context: grpc.ServicerContext) -> bytes:
        if context.add_callback(ended.set):
            ended.wait(60)
        return REPLY

    service.answer = answer
    return ended


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


@pytest.mark.parametrize("array", [SMALL, LARGE], ids=["one_message", "stream"])
async def test_a_task_that_is_cancelled_ends_its_call_at_the_server(
    service: ScriptedService, array: np.ndarray
) -> None:
    ended = hold(service)
    async with aclgrad.AsyncClient(service.address, timeout_s=None) as client:
        task = asyncio.create_task(client.execute("pool", {"a": array}))
        while not service.requests:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The client stays open: nothing else ends the call.
        assert await asyncio.to_thread(ended.wait, 10)
