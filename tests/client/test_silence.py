"""What moves keeps an attempt of a chunked call alive, in threads and in tasks."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from aclgrad._client.aio.sender import _Silence
from aclgrad._client.sync.idle_timeout import Silence

LIMIT_S = 0.5
MESSAGES = [b"a", b"b", b"c", b"d"]


def slowly(pause_s: float) -> Iterator[bytes]:
    for each in MESSAGES:
        time.sleep(pause_s)
        yield each


def test_what_moves_slowly_goes_on_in_threads() -> None:
    ended = threading.Event()
    silence = Silence(LIMIT_S)
    with silence.watched(ended.set):
        assert list(silence.through(slowly(LIMIT_S / 2))) == MESSAGES
    assert not silence.is_over
    assert not ended.is_set()


def test_silence_ends_the_attempt_once_and_in_time() -> None:
    ends: list[float] = []
    ended = threading.Event()

    def end() -> None:
        ends.append(time.monotonic())
        ended.set()

    silence = Silence(0.2)
    with silence.watched(end):
        assert list(silence.through(MESSAGES)) == MESSAGES
        begin = time.monotonic()
        assert ended.wait(30)
    assert silence.is_over
    assert len(ends) == 1
    assert ends[0] - begin > 0.1


def test_no_thread_stays_behind_an_attempt_that_ended() -> None:
    before = threading.active_count()
    with Silence(3600.0).watched(lambda: None):
        assert threading.active_count() == before + 1
    for each in threading.enumerate():
        if each.name == "aclgrad-silence":
            each.join(30)
    assert threading.active_count() == before


def test_without_a_limit_there_is_no_thread() -> None:
    before = threading.active_count()
    with Silence(None).watched(lambda: None):
        assert threading.active_count() == before


async def test_what_moves_slowly_goes_on_in_tasks() -> None:
    silence = _Silence(LIMIT_S)
    async with silence.timeout:
        for each in silence.through(MESSAGES):
            assert each
            await asyncio.sleep(LIMIT_S / 2)
    # A writer may be behind.
    assert list(silence.through(MESSAGES)) == MESSAGES


async def test_silence_ends_the_attempt_of_a_task() -> None:
    silence = _Silence(0.1)

    async def wait() -> None:
        async with silence.timeout:
            assert list(silence.through(MESSAGES)) == MESSAGES
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        await wait()
