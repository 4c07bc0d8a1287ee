"""A worker that gets other orders: its process drains, and the next one has them."""

import asyncio
import signal

import pytest

from aclgrad_server.exits import EXIT_START, EXIT_UNDRAINED, EXIT_USAGE
from aclgrad_server.place import Orders
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor import worker as worker_module
from aclgrad_server.supervisor.worker import State, Worker
from tests.server.fakes import begun, settle, wait_until
from tests.server.supervisor.lives import READY, READY_LIFE, STARTING, UNFIT, Life, Lives, reaches, shorten

NEW = Settings(streams=2, drain_timeout_s=0.1)


def other(worker: Worker) -> Orders:
    return Orders(NEW, worker.orders.place)


RENEWALS: dict[str, tuple[Life, State, Life, bool]] = {
    "ready": (READY_LIFE, State.READY, READY_LIFE, True),
    "starting": (Life(STARTING), State.STARTING, READY_LIFE, True),
    "starting_without_a_handler": (Life(catches={}), State.STARTING, READY_LIFE, True),
    "unfit": (Life(UNFIT), State.UNFIT, READY_LIFE, True),
    "paused": (Life(end=EXIT_UNDRAINED), State.PAUSED, READY_LIFE, True),
    "given_up": (Life(end=EXIT_USAGE), State.GIVEN_UP, READY_LIFE, True),
    "as_unfit_as_before": (Life(UNFIT), State.UNFIT, Life(UNFIT), True),
    "then_unfit": (READY_LIFE, State.READY, Life(UNFIT), False),
    "then_refused": (READY_LIFE, State.READY, Life(end=EXIT_START), False),
    "then_ended": (READY_LIFE, State.READY, Life(end=EXIT_UNDRAINED), False),
    "then_killed": (READY_LIFE, State.READY, Life(STARTING, answers=9, end=-9), False),
}
"""The process before and its worker's state, the process after, and whether the worker is as well as it was."""


@pytest.mark.parametrize(("before", "state", "after", "is_well"), RENEWALS.values(), ids=RENEWALS)
async def test_renewal_brings_the_new_orders_and_tells_whether_the_worker_is_as_well(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, before: Life, state: State, after: Life, is_well: bool
) -> None:
    shorten(monkeypatch, FIRST_PAUSE_S=50)
    first = [before] * (2 if state is State.PAUSED else 1)
    async with lives.running(*first, after) as worker:
        await wait_until(lambda: lives.count == len(first) and worker.state is state)
        assert await worker.renew(other(worker)) is is_well
        assert (await lives.orders(len(first) + 1)).settings == NEW
        if is_well:
            assert worker.state is (State.UNFIT if after.says == UNFIT else State.READY)
            # A process that was to start again anyway counts.
            assert worker.restarts == (2 if state is State.PAUSED else 0)
            assert lives.count == len(first) + 1
    assert not worker.was_cut


async def test_renewal_while_a_process_is_being_started(lives: Lives) -> None:
    """That process ends, and the next one has the orders."""
    async with lives.running(READY_LIFE) as worker:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(worker.renew(other(worker)), 30)
        assert (worker.state, worker.restarts) == (State.READY, 0)
        assert (await lives.orders(lives.count)).settings == NEW


async def test_stop_during_a_renewal_lets_the_process_drain(lives: Lives) -> None:
    """It has a signal already; a worker goes on draining after a second one."""
    async with lives.running(
        Life(READY, catches={"SIGTERM": None, "SIGWINCH": 0}), settings=Settings(drain_timeout_s=60)
    ) as worker:
        await reaches(worker, State.READY)
        renewal = await begun(worker.renew(other(worker)))
        await wait_until(lambda: lives.signals == ["SIGTERM"])
        stop = await begun(worker.stop())
        await settle()
        assert not stop.done()
        renewal.cancel()
        # It catches this one after any SIGTERM from before.
        worker.send(signal.SIGWINCH)
        await stop
    assert (set(lives.signals), lives.count, worker.state) == ({"SIGTERM", "SIGWINCH"}, 1, State.STOPPED)


async def test_process_that_is_renewed_has_the_time_of_its_own_settings(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten(monkeypatch, EXIT_LIMIT_S=0, KILL_S=0)
    async with lives.running(
        Life(READY, catches={"SIGTERM": None}), READY_LIFE, settings=Settings(drain_timeout_s=0.3)
    ) as worker:
        await reaches(worker, State.READY)
        begin = asyncio.get_running_loop().time()
        assert await worker.renew(Orders(Settings(drain_timeout_s=3600), worker.orders.place))
        assert asyncio.get_running_loop().time() - begin > 0.25
        assert "worker 0 has not stopped in time, and is killed" in caplog.text
        # What a renewal has cut is told by the worker's log, and not by the exit code of the host.
    assert not worker.was_cut


async def test_renewal_of_a_program_that_cannot_be_started(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lives.running(READY_LIFE) as worker:
        await reaches(worker, State.READY)
        monkeypatch.setattr(worker_module, "COMMAND", ("/nowhere/python",))
        assert not await worker.renew(other(worker))
