"""What the supervisor tells systemd of its workers."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from aclgrad_server.supervisor.worker import State
from tests.server.fakes import settle
from tests.server.supervisor.hosts import hosting
from tests.service_manager import ServiceManager

pytestmark = pytest.mark.usefixtures("fake_workers")


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceManager]:
    manager = ServiceManager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    yield manager
    manager.socket.close()


def told(manager: ServiceManager) -> list[str]:
    manager.read()
    return manager.told


async def test_a_host_is_ready_once_with_its_first_worker(manager: ServiceManager) -> None:
    async with hosting(0, 1) as host:
        assert told(manager) == []
        for worker in host.workers:
            worker.enter(State.READY)
        host.workers[0].enter(State.PAUSED, "ended")
        assert told(manager) == [
            "READY=1",
            "STATUS=1 of 2 workers are ready",
            "STATUS=2 of 2 workers are ready",
            "STATUS=1 of 2 workers are ready",
        ]
    assert told(manager)[-2:] == ["STOPPING=1", "STATUS=draining"]


async def test_the_start_ends_when_no_card_can_become_ready(manager: ServiceManager) -> None:
    """Otherwise systemd would end the host for taking too long, and a new one would find the same cards."""
    async with hosting(0, 1) as host:
        host.workers[0].enter(State.UNFIT, "its card failed")
        assert told(manager) == ["STATUS=0 of 2 workers are ready"]
        host.workers[1].give_up(2)
        assert told(manager)[1:] == ["READY=1", "STATUS=0 of 2 workers are ready"]


async def test_a_reload_lasts_until_the_last_worker_is_renewed(manager: ServiceManager) -> None:
    async with hosting(0, 1) as host:
        for worker in host.workers:
            worker.enter(State.READY)
        before = len(told(manager))
        host.workers[1].may_renew.clear()
        await host.signal(signal.SIGHUP)
        (reloading, _) = told(manager)[before:]
        assert reloading == "RELOADING=1"
        host.workers[1].may_renew.set()
        await settle()
        assert told(manager)[before + 2 :] == ["READY=1"]
