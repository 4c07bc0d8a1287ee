"""A worker that is not alive any more is ended: its stacks in the log, and killed if it takes no signal."""

import asyncio
import signal
from functools import partial
from types import SimpleNamespace

import pytest

from aclgrad_server.supervisor import worker as worker_module
from aclgrad_server.supervisor.worker import State, ask
from tests.server.fakes import Clock, wait_until
from tests.server.supervisor.lives import HUNG, READY, READY_LIFE, STARTING, Life, Lives, reaches, shorten


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lives has more time to answer than a busy machine takes for it."""
    shorten(monkeypatch, HANG_LIMIT_S=0.6, ABORT_S=0.2)
    monkeypatch.setattr(worker_module, "ask", partial(ask, limit_s=0.2))


ABORTED = {"SIGTERM": 0, "SIGABRT": 0}
DEAF, STOPS = {"SIGABRT": None}, -signal.SIGSTOP
MAIN_LOOP = "the main loop has not run for 12 s"
HANGS: dict[str, tuple[Life, str, str]] = {
    "never_listens": (Life(catches=ABORTED), "starting", "exit code 0"),
    "stops_answering": (Life(READY, answers=3, catches=ABORTED), "does not answer", "exit code 0"),
    "stops_while_starting": (Life(STARTING, answers=3, catches=ABORTED), "does not answer", "exit code 0"),
    # Its listener answers all the time, from its own thread.
    "main_loop_hangs": (Life(READY, answers=2, then=HUNG, catches=ABORTED), MAIN_LOOP, "exit code 0"),
    "takes_no_signal": (Life(READY, answers=3, catches=DEAF), "does not answer", "signal 9"),
    "is_stopped": (Life(READY, answers=3, end=STOPS, catches=ABORTED), "does not answer", "signal 9"),
}
"""What the process does, what its worker says of it, and how it ends."""


@pytest.mark.parametrize(("life", "reason", "how"), HANGS.values(), ids=HANGS)
async def test_process_that_is_not_alive_is_aborted_and_then_killed(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, life: Life, reason: str, how: str
) -> None:
    """SIGABRT has it write its stacks. One that was alive has the shorter limit."""
    shorten(monkeypatch, START_LIMIT_S=30 if life.answers else 1.5)
    # What a busy machine takes for stacks; only a process that writes none is waited for until the end.
    shorten(monkeypatch, ABORT_S=0.2 if how == "signal 9" else 10.0)
    async with lives.running(life, READY_LIFE) as worker:
        await wait_until(lambda: lives.count == 2 and worker.state is State.READY)
        assert worker.restarts == 1
        assert (State.STARTING, reason) in lives.states
        assert (State.PAUSED, f"restarts in 0 s after {how}") in lives.states
    limit_s = 1 if life.answers else 2
    assert f"worker 0 is not alive since {limit_s} s: SIGABRT has it write its stacks" in caplog.text
    assert lives.signals == (["SIGTERM"] if life.end == STOPS else ["SIGABRT", "SIGTERM"])


async def test_process_that_answers_again_in_time_is_left_alone(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, HANG_LIMIT_S=30)
    async with lives.running(READY_LIFE) as worker:
        await reaches(worker, State.READY)
        worker.send(signal.SIGSTOP)
        await wait_until(lambda: worker.reason == "does not answer")
        assert worker.state is State.STARTING
        worker.send(signal.SIGCONT)
        await reaches(worker, State.READY)
        assert worker.restarts == 0
    assert lives.count == 1


async def test_time_in_which_the_supervisor_itself_was_stopped_is_not_held_against_a_process(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `docker pause`: the first look afterwards may fail, because everything comes at once."""
    shorten(monkeypatch, HANG_LIMIT_S=10)
    clock = Clock()
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=clock))
    async with lives.running(Life(READY, answers=3, then=HUNG, catches={"SIGTERM": 0, "SIGABRT": None})) as worker:
        await reaches(worker, State.READY)
        clock.now_s += 1000
        await wait_until(lambda: "the main loop" in worker.reason)
        looks = len(lives.states)
        clock.now_s += 1000
        await asyncio.sleep(0.3)
        assert len(lives.states) == looks
    assert lives.signals == ["SIGTERM"]


@pytest.mark.parametrize("says", ["alive", "[1]", '{"alive": true}'])
async def test_process_that_cannot_be_watched_is_killed_and_started_again(
    lives: Lives, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its answers are not those of a worker: whatever else it is, nobody would know when it hangs."""
    async with lives.running(Life(says), READY_LIFE) as worker:
        await reaches(worker, State.READY)
        assert (worker.restarts, lives.count) == (1, 2)
        assert "worker 0 is not watched any more, and is killed" in caplog.text
        assert (State.PAUSED, "restarts in 0 s after signal 9") in lives.states


async def test_renewal_of_a_process_that_hangs_ends_with_the_watch(lives: Lives) -> None:
    async with lives.running(READY_LIFE) as worker:
        await reaches(worker, State.READY)
        worker.send(signal.SIGSTOP)
        assert await asyncio.wait_for(worker.renew(worker.orders), 30)
        assert (worker.restarts, lives.count) == (0, 2)
