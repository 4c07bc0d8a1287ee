"""A heartbeat ages, and background tasks survive what fails or end the heartbeat."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aclgrad_server import liveness
from aclgrad_server.liveness import BEAT_LIMIT_S, BackgroundTasks, Heartbeat
from tests.server.fakes import Clock, settle, wait_until


def test_loop_that_beats_is_alive_and_one_that_stops_is_not() -> None:
    clock = Clock()
    heartbeat = Heartbeat(clock)
    heartbeat.beat()
    clock.now_s += BEAT_LIMIT_S
    assert (heartbeat.age_s, heartbeat.failure()) == (BEAT_LIMIT_S, None)
    clock.now_s += 2.4
    assert heartbeat.failure() == "the main loop has not run for 12 s (limit 10 s)"
    heartbeat.beat()
    assert heartbeat.failure() is None


class Looks:
    """Fails as often as it is told to, by the given error."""

    def __init__(self, failures: float, error: BaseException) -> None:
        self.count = 0
        self._failures = failures
        self._error = error

    async def __call__(self) -> float:
        self.count += 1
        if self.count <= self._failures:
            raise self._error
        return 0.0


class Background:
    def __init__(self) -> None:
        self.heartbeat = Heartbeat()
        self.failures = 0
        self.tasks = BackgroundTasks(self.heartbeat, self._fail)

    def _fail(self) -> None:
        self.failures += 1


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    background = Background()
    yield background
    await background.tasks.stop()


@pytest.mark.parametrize("error", [OSError("no file is free"), asyncio.CancelledError("of another task")], ids=str)
async def test_a_look_that_fails_is_logged_and_made_again(
    background: Background, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    looks = Looks(2, error)
    background.tasks.start("watch of sheep", looks)
    await wait_until(lambda: looks.count > 3)
    assert (background.heartbeat.failure(), background.failures) == (None, 0)
    assert caplog.text.count("the background task 'watch of sheep' failed, and tries again") == 1
    assert f"{type(error).__name__}: {error}" in caplog.text


async def test_looks_that_go_on_failing_end_the_heartbeat(
    background: Background, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "FAILURES_LIMIT_S", 0.2)
    others = Looks(0, OSError())
    background.tasks.start("watch of sheep", Looks(float("inf"), OSError("no file is free")))
    background.tasks.start("watch of wolves", others)
    await wait_until(lambda: background.heartbeat.failure() is not None)
    background.heartbeat.beat()
    assert background.heartbeat.failure() == "the background task 'watch of sheep' has ended; see the log"
    await wait_until(lambda: background.failures == 1)
    assert "has ended; restart the process" in caplog.text
    assert caplog.text.count("OSError: no file is free") >= 2
    before = others.count
    await wait_until(lambda: others.count > before)


async def test_the_process_is_found_dead_even_if_the_log_fails(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("the log is closed")

    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    monkeypatch.setattr(liveness.log, "exception", fail)
    monkeypatch.setattr(liveness.log, "error", fail)
    background.tasks.start("watch of sheep", Looks(1, OSError("no file is free")))
    await wait_until(lambda: background.heartbeat.failure() is not None)
    await settle()
    assert [str(error) for error in reported] == ["the log is closed"]
    assert background.failures == 1


async def test_a_task_may_end_well_and_stopped_tasks_have_ended(background: Background) -> None:
    async def look() -> None:
        looked.set()

    async def hang() -> None:
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await settle()
            ended.append(True)

    looked, began, ended = asyncio.Event(), asyncio.Event(), []
    background.tasks.start("watch of sheep", look)
    background.tasks.start("watch of wolves", hang)
    await looked.wait()
    await began.wait()
    await background.tasks.stop()
    assert ended == [True]
    assert background.heartbeat.failure() is None
