"""What a supervisor does when a worker's process ends: it starts another one, sooner or later, or none."""

import asyncio
import errno
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from aclgrad_server.exits import EXIT_DEVICE_LOST, EXIT_START, EXIT_UNDRAINED, EXIT_USAGE
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor import worker as worker_module
from aclgrad_server.supervisor.worker import STEADY_S, State, Worker
from tests.server.fakes import Clock, wait_until
from tests.server.supervisor.lives import READY, READY_LIFE, STARTING, UNFIT, Life, Lives, is_alive, reaches, shorten


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """The pauses before new processes, which take no time; one without end is kept."""
    found: list[float | None] = []
    wait = Worker._sleep  # noqa: SLF001 - what it is told is what the tests are about

    async def note(worker: Worker, limit_s: float | None) -> None:
        found.append(limit_s)
        await (wait(worker, None) if limit_s is None else asyncio.sleep(0))

    monkeypatch.setattr(Worker, "_sleep", note)
    return found


@pytest.mark.parametrize("end", [EXIT_UNDRAINED, EXIT_DEVICE_LOST, 0, 7, -signal.SIGKILL, -signal.SIGSEGV])
@pytest.mark.parametrize("says", [None, STARTING, READY], ids=["silent", "starting", "ready"])
async def test_most_ends_are_followed_by_a_new_process_at_once(lives: Lives, says: str | None, end: int) -> None:
    lives.plan(Life(says, answers=1, end=end), READY_LIFE)
    worker = lives.worker()
    async with lives.kept(worker):
        await wait_until(lambda: lives.count == 2 and worker.state is State.READY)
        assert (worker.restarts, worker.reason, worker.was_cut) == (1, "", False)
        how = f"exit code {end}" if end >= 0 else f"signal {-end}"
        assert (State.PAUSED, f"restarts in 0 s after {how}") in lives.states
        assert (await lives.orders(2)).place.restart_count == 1
    assert (worker.state, worker.was_cut) == (State.STOPPED, False)


@pytest.mark.parametrize(
    "life",
    [Life(end=EXIT_USAGE), Life(READY, answers=1, end=EXIT_USAGE), Life(end=EXIT_START),
     Life(STARTING, answers=2, end=EXIT_START), Life(UNFIT, answers=2, end=EXIT_START)],
    ids=["2", "2_when_ready", "1", "1_when_starting", "1_when_unfit"],
)  # fmt: skip
async def test_ends_that_would_come_again_are_told_once_and_not_repeated(
    lives: Lives, life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    lives.plan(life, READY_LIFE)
    worker = lives.worker()
    async with lives.kept(worker):
        await reaches(worker, State.GIVEN_UP)
        assert (worker.reason, worker.exit_code) == (f"given up: exit code {life.end}", life.end)
        assert caplog.text.count("it stays down") == 1
    # It ended without another process.
    assert (lives.count, worker.restarts, worker.was_cut) == (1, 0, False)


async def test_a_worker_that_was_ready_and_cannot_start_again_is_given_up_then(lives: Lives) -> None:
    lives.plan(Life(READY, answers=1, end=EXIT_START), Life(end=EXIT_START))
    worker = lives.worker()
    async with lives.kept(worker):
        await reaches(worker, State.GIVEN_UP)
    assert (lives.count, worker.restarts) == (2, 1)


async def test_pauses_double_from_a_second_to_a_minute(lives: Lives, pauses: list[float | None]) -> None:
    lives.plan(Life(end=EXIT_UNDRAINED))
    worker = lives.worker()
    async with lives.kept(worker):
        await wait_until(lambda: len(pauses) >= 10)
    assert pauses[:10] == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_a_crash_loop_of_days_is_one_of_minutes(
    lives: Lives, pauses: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a machine that has no more processes to give."""

    async def refuse(*command: str, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    worker = lives.worker()
    async with lives.kept(worker):
        await wait_until(lambda: len(pauses) > 1100)
        assert worker.restarts >= 1100
    assert set(pauses[8:]) == {60}


@pytest.mark.parametrize(("ready_s", "third"), [(STEADY_S, 0.0), (STEADY_S - 1, 2.0)], ids=["steady", "not_yet"])
async def test_a_worker_that_was_ready_for_long_starts_afresh(
    lives: Lives, pauses: list[float | None], monkeypatch: pytest.MonkeyPatch, ready_s: float, third: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=clock))
    lives.plan(Life(end=EXIT_UNDRAINED), Life(end=EXIT_UNDRAINED), Life(READY, answers=20, end=EXIT_DEVICE_LOST))
    worker = lives.worker()
    async with lives.kept(worker):
        await reaches(worker, State.READY)
        clock.now_s += ready_s
        await wait_until(lambda: len(pauses) >= 3)
    assert pauses[:3] == [0, 1, third]


async def test_a_program_that_cannot_be_started_is_tried_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten(monkeypatch, FIRST_PAUSE_S=0.01)
    lives.plan(READY_LIFE)
    command = worker_module.COMMAND
    monkeypatch.setattr(worker_module, "COMMAND", ("/nowhere/python",))
    worker = lives.worker()
    async with lives.kept(worker):
        await wait_until(lambda: worker.restarts >= 2)
        assert "worker 0 cannot be started: [Errno 2] No such file or directory" in caplog.text
        assert worker.exit_code is None
        monkeypatch.setattr(worker_module, "COMMAND", command)
        await reaches(worker, State.READY)


async def test_a_process_that_cannot_be_waited_for_costs_its_worker_a_start(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container with a limit of processes: before Python 3.12, asyncio waits in a thread. Others go on."""
    create = asyncio.create_subprocess_exec

    def fail_once(*command: str, **options: object) -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
        raise RuntimeError("can't start new thread")

    lives.plan(READY_LIFE)
    worker = lives.worker()
    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail_once)
    async with lives.kept(worker):
        await reaches(worker, State.READY)
        assert "worker 0 cannot be started: can't start new thread" in caplog.text
        assert (State.PAUSED, "restarts in 0 s after a failed start") in lives.states


async def test_a_socket_that_cannot_be_replaced_costs_its_worker_alone(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten(monkeypatch, FIRST_PAUSE_S=0.01)
    lives.plan(READY_LIFE)
    worker = lives.worker()
    folder = Path(worker.socket)
    folder.mkdir()
    async with lives.kept(worker):
        await wait_until(lambda: worker.restarts >= 2)
        assert "worker 0 cannot be started: [Errno 21] Is a directory" in caplog.text
        folder.rmdir()
        await reaches(worker, State.READY)


async def test_folder_of_sockets_that_was_cleared_away_is_made_again(lives: Lives, tmp_path: Path) -> None:
    """As by what clears /tmp of old files."""
    lives.plan(READY_LIFE)
    worker = lives.worker()
    worker.socket = str(tmp_path / "gone/0.sock")
    async with lives.kept(worker):
        await wait_until(lambda: lives.count > 0)
        assert Path(worker.socket).parent.stat().st_mode & 0o777 == 0o700


async def test_folder_of_sockets_that_is_somebody_else_s_is_not_used(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten(monkeypatch, FIRST_PAUSE_S=0.01)
    lives.plan(READY_LIFE)
    worker = lives.worker()
    with monkeypatch.context() as context:
        context.setattr(os, "geteuid", lambda: 12345)
        async with lives.kept(worker):
            await wait_until(lambda: worker.restarts >= 2)
    assert lives.count == 0
    assert "is somebody else's" in caplog.text


async def test_unfit_card_keeps_its_worker(lives: Lives) -> None:
    lives.plan(Life(UNFIT))
    worker = lives.worker()
    async with lives.kept(worker):
        await reaches(worker, State.UNFIT)
        assert (worker.reason, worker.restarts) == ("device 0 fails", 0)
    assert (lives.count, worker.was_cut) == (1, False)


async def test_what_a_process_is_given(lives: Lives) -> None:
    """Its orders, how many share the processors, and a process group of its own, which no Ctrl-C reaches."""
    lives.plan(READY_LIFE)
    worker = lives.worker(index=1)
    async with lives.kept(worker):
        await reaches(worker, State.READY)
        ((process_id, group, count),) = lives.processes
        assert (group, count) == (process_id, "2")
        assert await lives.orders(1) == worker.orders


async def test_a_process_that_closes_its_input_goes_on(lives: Lives) -> None:
    lives.plan(Life(READY, closes_input=True))
    worker = lives.worker()
    async with lives.kept(worker):
        await reaches(worker, State.READY)
        assert (worker.restarts, lives.count) == (0, 1)
    assert lives.signals == ["SIGTERM"]


STOPS: dict[str, tuple[Life, str, bool]] = {
    "drained": (READY_LIFE, "", False),
    "cut": (Life(READY, catches={"SIGTERM": EXIT_UNDRAINED}), "", True),
    "killed": (Life(READY, catches={"SIGTERM": None}), "", True),
    "lost": (Life(READY, catches={"SIGTERM": EXIT_DEVICE_LOST}), "", True),
    # Before a process catches the signal, it takes no calls either.
    "starting": (Life(STARTING, catches={}), "starting", False),
    "unfit": (Life(UNFIT), "device 0 fails", False),
    "given_up": (Life(end=EXIT_USAGE), "given up: exit code 2", False),
    "paused": (Life(end=EXIT_UNDRAINED), "restarts in 50 s after exit code 3", False),
}
"""What the process does, the reason that its worker is stopped with, and whether calls were cut."""


@pytest.mark.parametrize(("life", "reason", "was_cut"), STOPS.values(), ids=STOPS)
async def test_stop_in_each_state(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, life: Life, reason: str, was_cut: bool
) -> None:
    """Without waiting for what a process that ignores it would take, or for a pause."""
    shorten(monkeypatch, FIRST_PAUSE_S=50, EXIT_LIMIT_S=0.1, KILL_S=0.1)
    lives.plan(life)
    worker = lives.worker(Settings(drain_timeout_s=0.1))
    async with lives.kept(worker):
        await wait_until(lambda: lives.count > 0 and worker.reason == reason, 30)
        ends = lives.count
    assert (worker.state, worker.was_cut, lives.count) == (State.STOPPED, was_cut, ends)
    assert not any(map(is_alive, lives.process_ids))


async def test_stop_while_a_process_is_being_started(lives: Lives) -> None:
    lives.plan(READY_LIFE)
    worker = lives.worker()
    async with lives.kept(worker):
        await asyncio.sleep(0)
    assert (worker.state, worker.was_cut) == (State.STOPPED, False)
    assert not any(map(is_alive, lives.process_ids))
