"""Work of native threads and the coroutines that wait for it: results, failures, cancellation and losses."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import aclgrad_native
from aclgrad.errors import DeviceLostError
from aclgrad_server.devices.completions import Completions, Ticket
from tests.server.fakes import settle


class Work:
    """Stands for the native runtime: takes one ticket, and notes whether its work was cancelled."""

    ticket: Ticket
    is_cancelled = False

    def submit(self, ticket: Ticket, *arguments: Any) -> "Work":
        self.ticket = ticket
        return self

    def cancel(self) -> None:
        self.is_cancelled = True


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *arguments: object) -> None:
        self.count += 1


@pytest.fixture
async def completions() -> AsyncIterator[Completions]:
    completions = Completions()
    yield completions
    completions.close()


async def begun(completions: Completions, work: Work, **callbacks: Callable[..., None]) -> "asyncio.Task[Any]":
    task = asyncio.ensure_future(completions.run(work.submit, **callbacks))
    await settle()
    return task


@pytest.mark.parametrize("result", ["result", RuntimeError("it failed")], ids=["result", "exception"])
async def test_result_reaches_the_coroutine_and_the_end_is_reported_once(
    completions: Completions, result: object
) -> None:
    work, ended, failed = Work(), Counter(), Counter()
    task = await begun(completions, work, on_end=ended, on_failure=failed)
    assert not task.done()
    work.ticket(result)
    await asyncio.wait([task])
    assert result == (task.exception() or task.result())
    assert (ended.count, failed.count) == (1, isinstance(result, Exception))


async def test_work_that_cannot_be_submitted_has_ended(completions: Completions) -> None:
    def submit(ticket: Ticket) -> None:
        raise MemoryError

    ended, failed = Counter(), Counter()
    with pytest.raises(MemoryError):
        await completions.run(submit, on_end=ended, on_failure=failed)
    assert (ended.count, failed.count) == (1, 1)


@pytest.mark.parametrize("result", ["result", RuntimeError("it failed")], ids=["result", "exception"])
async def test_cancelled_coroutine_drops_its_work_and_the_end_is_still_reported(
    completions: Completions, result: object
) -> None:
    work, ended = Work(), Counter()
    task = await begun(completions, work, on_end=ended)
    task.cancel()
    await settle()
    assert task.cancelled()
    assert work.is_cancelled
    assert ended.count == 0
    work.ticket(result)
    assert ended.count == 1


async def test_loss_ends_every_wait_now_and_later(completions: Completions) -> None:
    hung, ended = Work(), Counter()
    task = await begun(completions, hung, on_end=ended)
    completions.lose(lambda: DeviceLostError("lost"))
    for work in (task, completions.run(Work().submit)):
        with pytest.raises(DeviceLostError):
            await work
    # The driver may report in the end.
    hung.ticket("result")
    assert ended.count == 1


async def test_native_threads_wake_the_event_loop_and_a_callback_that_fails_loses_no_result(
    completions: Completions, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    library = aclgrad_native.open("host", None)
    device = aclgrad_native.Device(library, 0, completions.native, pool_limit_bytes=2**20, stream_limit=1)
    async with asyncio.timeout(60):
        assert await completions.run(device.join, [b"ab", memoryview(b"cd")]) == b"abcd"
        work = [completions.run(device.join, [b"%d" % each], on_end=fail) for each in range(100)]
        assert await asyncio.gather(*work) == [b"%d" % each for each in range(100)]
    assert caplog.text.count("a callback of finished work failed") == 100


async def test_nothing_is_kept_of_work_that_failed(completions: Completions) -> None:
    """Without a garbage collection: the frames of those that waited hold the messages of calls."""

    class Large:
        """Stands for a message."""

    made: list[weakref.ref[Large]] = []
    work = Work()

    async def call() -> None:
        large = Large()
        made.append(weakref.ref(large))
        await completions.run(work.submit)

    task = asyncio.ensure_future(call())
    await settle()
    gc.disable()
    try:
        work.ticket(RuntimeError("it failed"))
        del work.ticket
        with pytest.raises(RuntimeError):
            await task
        del task
        await settle()
        assert made[0]() is None
    finally:
        gc.enable()
