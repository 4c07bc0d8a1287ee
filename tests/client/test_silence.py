"""What moves keeps an attempt of a chunked call alive, in threads and in tasks."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from aclgrad._client.aio.sender import _IdleTimeout
from aclgrad._client.sync.idle_timeout import IdleTimeout

LIMIT_S = 0.5
MESSAGES = [b"a", b"b", b"c", b"d"]


def slowly(pause_s: float) -> Iterator[bytes]:
    for each in MESSAGES:
        time.sleep(pause_s)
        yield each


def test_what_moves_slowly_goes_on_in_threads() -> None:
    ended = threading.Event()
    idle_timeout = IdleTimeout(LIMIT_S)
    with idle_timeout.watched(ended.set):
        assert list(idle_timeout.through(slowly(LIMIT_S / 2))) == MESSAGES
    assert not idle_timeout.is_over
    assert not ended.is_set()


def test_silence_ends_the_attempt_once_and_in_time() -> None:
    ends: list[float] = []
    ended = threading.Event()

    def end() -> None:
        ends.append(time.monotonic())
        ended.set()

    idle_timeout = IdleTimeout(0.2)
    with idle_timeout.watched(end):
        assert list(idle_timeout.through(MESSAGES)) == MESSAGES
        begin = time.monotonic()
        assert ended.wait(30)
    assert idle_timeout.is_over
    assert len(ends) == 1
    assert ends[0] - begin > 0.1


def test_no_thread_stays_behind_an_attempt_that_ended() -> None:
    before = threading.active_count()
    with IdleTimeout(3600.0).watched(lambda: None):
        assert threading.active_count() == before + 1
    for each in threading.enumerate():
        if each.name == "aclgrad-idle-timeout":
            each.join(30)
    assert threading.active_count() == before


def test_without_a_limit_there_is_no_thread() -> None:
    before = threading.active_count()
    with IdleTimeout(None).watched(lambda: None):
        assert threading.active_count() == before


async def test_what_moves_slowly_goes_on_in_tasks() -> None:
    idle_timeout = _IdleTimeout(LIMIT_S)
    async with idle_timeout.timeout:
        for each in idle_timeout.through(MESSAGES):
            assert each
            await asyncio.sleep(LIMIT_S / 2)
    # A writer may be behind.
    assert list(idle_timeout.through(MESSAGES)) == MESSAGES


async def test_silence_ends_the_attempt_of_a_task() -> None:
    idle_timeout = _IdleTimeout(0.1)

    async def wait() -> None:
        async with idle_timeout.timeout:
            assert list(idle_timeout.through(MESSAGES)) == MESSAGES
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        await wait()
