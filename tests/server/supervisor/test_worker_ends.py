"""What a supervisor does when a worker's process ends: it starts another one, sooner or later, or none."""

import asyncio
import errno
import os
import re
import signal
from collections.abc import Awaitable, Callable
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


@pytest.mark.parametrize(
    ("says", "end"),
    [
        *((READY, end) for end in (EXIT_UNDRAINED, EXIT_DEVICE_LOST, 0, 7, -signal.SIGKILL)),
        (STARTING, EXIT_DEVICE_LOST),
        (None, -signal.SIGSEGV),
    ],
)
async def test_most_ends_are_followed_by_a_new_process_at_once(lives: Lives, says: str | None, end: int) -> None:
    async with lives.running(Life(says, answers=1, end=end), READY_LIFE) as worker:
        await wait_until(lambda: lives.count == 2 and worker.state is State.READY)
        assert (worker.restarts, worker.reason, worker.was_cut) == (1, "", False)
        how = f"exit code {end}" if end >= 0 else f"signal {-end}"
        assert (State.PAUSED, f"restarts in 0 s after {how}") in lives.states
        assert (await lives.orders(2)).place.restart_count == 1
    assert (worker.state, worker.was_cut) == (State.STOPPED, False)


GIVEN_UP: dict[str, tuple[Life, ...]] = {
    "2": (Life(end=EXIT_USAGE),),
    "2_when_ready": (Life(READY, answers=1, end=EXIT_USAGE),),
    "1": (Life(end=EXIT_START),),
    "1_when_starting": (Life(STARTING, answers=2, end=EXIT_START),),
    "1_when_unfit": (Life(UNFIT, answers=2, end=EXIT_START),),
    "1_after_1_when_ready": (Life(READY, answers=1, end=EXIT_START), Life(end=EXIT_START)),
}


@pytest.mark.parametrize("plan", GIVEN_UP.values(), ids=GIVEN_UP)
async def test_ends_that_would_come_again_are_told_once_and_not_repeated(
    lives: Lives, plan: tuple[Life, ...], caplog: pytest.LogCaptureFixture
) -> None:
    end = plan[-1].end
    async with lives.running(*plan, READY_LIFE) as worker:
        await reaches(worker, State.GIVEN_UP)
        assert (worker.reason, worker.exit_code) == (f"given up: exit code {end}", end)
        assert caplog.text.count("it stays down") == 1
    # It ended without another process.
    assert (lives.count, worker.restarts, worker.was_cut) == (len(plan), len(plan) - 1, False)


def refusing(error: Exception) -> Callable[..., Awaitable[None]]:
    """Returns what starts a process on a machine that has no more of something."""

    async def refuse(*command: str, **options: object) -> None:
        raise error

    return refuse


async def test_pauses_double_from_a_second_to_a_minute_and_never_end(
    lives: Lives, pauses: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_process = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refusing(no_process))
    async with lives.running(READY_LIFE) as worker:
        await wait_until(lambda: len(pauses) > 1100)
        assert worker.restarts >= 1100
    assert pauses[:8] == [0, 1, 2, 4, 8, 16, 32, 60]
    assert set(pauses[8:]) == {60}


@pytest.mark.parametrize(("ready_s", "third"), [(STEADY_S, 0.0), (STEADY_S - 1, 2.0)], ids=["steady", "not_yet"])
async def test_a_worker_that_was_ready_for_long_starts_afresh(
    lives: Lives, pauses: list[float | None], monkeypatch: pytest.MonkeyPatch, ready_s: float, third: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=clock))
    async with lives.running(
        Life(end=EXIT_UNDRAINED), Life(end=EXIT_UNDRAINED), Life(READY, answers=20, end=EXIT_DEVICE_LOST)
    ) as worker:
        await reaches(worker, State.READY)
        clock.now_s += ready_s
        await wait_until(lambda: len(pauses) >= 3)
    assert pauses[:3] == [0, 1, third]


NO_THREAD = refusing(RuntimeError("can't start new thread"))
HINDRANCES: dict[str, tuple[Callable[[pytest.MonkeyPatch, Path], None], str]] = {
    "no_program": (
        lambda patch, _: patch.setattr(worker_module, "COMMAND", ("/nowhere/python",)),
        "[Errno 2] No such file or directory",
    ),
    # As in a container with a limit of processes: before Python 3.12, asyncio waits in a thread.
    "no_thread": (
        lambda patch, _: patch.setattr(asyncio, "create_subprocess_exec", NO_THREAD),
        "can't start new thread",
    ),
    "socket_that_cannot_be_replaced": (lambda _, socket: socket.mkdir(), "[Errno 21] Is a directory"),
    "folder_of_somebody_else": (lambda patch, _: patch.setattr(os, "geteuid", lambda: 12345), "is somebody else's"),
}


@pytest.mark.parametrize(("hinder", "told"), HINDRANCES.values(), ids=HINDRANCES)
async def test_a_process_that_cannot_be_started_is_tried_again(
    lives: Lives,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hinder: Callable[[pytest.MonkeyPatch, Path], None],
    told: str,
) -> None:
    shorten(monkeypatch, FIRST_PAUSE_S=0.01)
    socket = tmp_path / "0.sock"
    with pytest.MonkeyPatch.context() as patch:
        hinder(patch, socket)
        async with lives.running(READY_LIFE) as worker:
            await wait_until(lambda: worker.restarts >= 2)
            assert re.search(f"worker 0 cannot be started: .*{re.escape(told)}", caplog.text)
            assert (State.PAUSED, "restarts in 0 s after a failed start") in lives.states
            assert (worker.exit_code, lives.count) == (None, 0)
            patch.undo()
            if socket.is_dir():
                socket.rmdir()
            await reaches(worker, State.READY)


async def test_folder_of_sockets_that_was_cleared_away_is_made_again(lives: Lives, tmp_path: Path) -> None:
    """As by what clears /tmp of old files."""
    async with lives.running(READY_LIFE) as worker:
        worker.socket = str(tmp_path / "gone/0.sock")
        await wait_until(lambda: lives.count > 0)
        assert Path(worker.socket).parent.stat().st_mode & 0o777 == 0o700


async def test_what_a_process_is_given(lives: Lives) -> None:
    """Its orders, how many share the processors, and a process group of its own, which no Ctrl-C reaches."""
    async with lives.running(READY_LIFE, index=1) as worker:
        await reaches(worker, State.READY)
        ((process_id, group, count),) = lives.processes
        assert (group, count) == (process_id, "2")
        assert await lives.orders(1) == worker.orders


STOPS: dict[str, tuple[Life, str, bool]] = {
    "drained": (READY_LIFE, "", False),
    "drained_with_its_input_closed": (Life(READY, closes_input=True), "", False),
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
    async with lives.running(life, settings=Settings(drain_timeout_s=0.1)) as worker:
        await wait_until(lambda: lives.count > 0 and worker.reason == reason, 30)
    # The first pause takes no time, so the second process is the one that pauses.
    restarts = int("restarts" in reason)
    assert (worker.state, worker.was_cut) == (State.STOPPED, was_cut)
    assert (lives.count, worker.restarts) == (restarts + 1, restarts)
    assert not any(map(is_alive, lives.process_ids))


async def test_stop_while_a_process_is_being_started(lives: Lives) -> None:
    async with lives.running(READY_LIFE) as worker:
        await asyncio.sleep(0)
    assert (worker.state, worker.was_cut) == (State.STOPPED, False)
    assert not any(map(is_alive, lives.process_ids))
