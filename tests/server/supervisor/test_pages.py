"""The admin listener of a host answers for all workers, whatever becomes of some of them."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from aclgrad_server.admin.listener import AdminListener
from aclgrad_server.admin.pages import pages
from aclgrad_server.place import Place
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor import pages as supervisor_pages
from aclgrad_server.supervisor.worker import State
from aclgrad_server.supervisor.worker import ask as ask_worker
from tests.e2e.admin_pages import ask, fetch
from tests.server.supervisor.hosts import FakeWorker, Host, hosting
from tools.authority import write_identities

pytestmark = pytest.mark.usefixtures("fake_workers")


class Asked:
    """A host and what its admin listener says."""

    def __init__(self, host: Host, address: str) -> None:
        self.host = host
        self.workers = host.workers
        self.address = address

    async def page(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(ask, self.address, path)


@asynccontextmanager
async def asking(capfd: pytest.CaptureFixture[str], *cards: int, **settings: object) -> AsyncIterator[Asked]:
    async with hosting(*cards, admin="127.0.0.1:0", **settings) as host:
        name, _, address = capfd.readouterr().out.strip().partition(": ")
        assert name == "admin"
        yield Asked(host, address)


def answer_for(worker: FakeWorker) -> AdminListener:
    """Starts the listener of a server that is not ready, on the worker's socket."""
    listener = AdminListener(f"unix:{worker.socket}", pages(ServerView(Settings(), Place(worker.index, 3))))
    listener.start()
    return listener


async def test_ready_is_who_has_a_ready_worker(capfd: pytest.CaptureFixture[str]) -> None:
    async with asking(capfd, 0, 1) as asked:
        assert await asked.page("/livez") == (200, "alive\n")
        lines = "worker 0: not ready: starting\nworker 1: not ready: starting\n"
        assert await asked.page("/readyz") == (503, f"not ready\n{lines}")
        asked.workers[1].enter(State.READY)
        asked.workers[0].enter(State.PAUSED, "restarts in 4 s after signal 9")
        lines = "worker 0: not ready: restarts in 4 s after signal 9\nworker 1: ready\n"
        assert await asked.page("/readyz") == (200, f"ready\n{lines}")
        asked.workers[1].enter(State.STARTING, "does not answer")
        assert (await asked.page("/readyz"))[0] == 503
        # The supervisor itself is well.
        assert await asked.page("/livez") == (200, "alive\n")


async def test_supervisor_that_hangs_is_not_alive(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(capfd) as asked:
        why = "the main loop has not run for 12 s (limit 10 s)"
        monkeypatch.setattr(asked.host.supervisor.heartbeat, "failure", lambda: why)
        assert await asked.page("/livez") == (503, f"not alive: {why}\n")


async def test_pages_tell_of_those_that_answer_and_why_others_do_not(capfd: pytest.CaptureFixture[str]) -> None:
    async with asking(capfd, 3, 5) as asked:
        own = asked.host.supervisor.addresses.own
        listener = answer_for(asked.workers[1])
        asked.workers[0].enter(State.GIVEN_UP, "given up: exit code 2")
        asked.workers[0].restarts = 5
        try:
            (metrics_status, metrics), (status, page) = await asked.page("/metrics"), await asked.page("/")
        finally:
            listener.stop()
        assert asked.workers[0].socket not in page
    assert (metrics_status, status) == (200, 200)
    for told in (
        'aclgrad_worker_up{worker="0"} 0.0',
        'aclgrad_worker_up{worker="1"} 1.0',
        'aclgrad_worker_restarts_total{worker="0"} 5.0',
        'aclgrad_ready{worker="1"} 0.0',
    ):
        assert f"\n{told}\n" in metrics
    text = re.sub(r"<[^>]*>|\s+", " ", page)
    assert "given up: exit code 2" in text
    assert all(address in text for each in own for address in each)


async def test_addresses_are_not_for_everybody_if_calls_need_an_identity(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    identities = Path(write_identities(tmp_path / "identities.toml", {"trainer": {"token": "secret"}}))
    async with asking(capfd, 0, 1, identities=identities) as asked:
        _, page = await asked.page("/")
        assert not any(each[0] in page for each in asked.host.supervisor.addresses.own)


async def test_silent_workers_are_asked_at_once_and_once_for_all_who_want_a_page_meanwhile(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise those who read pages take the supervisor's time and files, and it takes its workers for dead."""
    monkeypatch.setattr(supervisor_pages, "ask", partial(ask_worker, limit_s=0.5))
    count, open_now, most = Counter[str](), Counter[str](), Counter[str]()

    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        page = (await reader.readline()).decode()
        count[page] += 1
        open_now[page] += 1
        most[page] = max(most[page], open_now[page])
        await reader.read()
        open_now[page] -= 1
        writer.close()

    async with asking(capfd, *range(4)) as asked:
        silent = asked.workers[:3]
        servers = [await asyncio.start_unix_server(be_silent, worker.socket) for worker in silent]
        listener = answer_for(asked.workers[3])
        try:
            found = await asyncio.gather(*(asked.page(path) for path in ("/", "/metrics") * 3))
            assert {status for status, _ in found} == {200}
            for (_, page), (_, metrics) in zip(found[::2], found[1::2], strict=True):
                assert [metrics.count(f'up{{worker="{each}"}} {float(each == 3)}') for each in range(4)] == [1] * 4
                assert page.count("starting") >= 3
            assert [each >= len(silent) for each in most.values()] == [True] * 2
            # Threads that come late may find the first page made.
            assert max(count.values()) <= 2 * len(silent)
            # The next one is a new one.
            before = count.copy()
            await asyncio.gather(asked.page("/"), asked.page("/metrics"))
            assert count == {path: each + len(silent) for path, each in before.items()}
        finally:
            listener.stop()
            for each in servers:
                each.close()


async def test_only_these_pages_are_served(capfd: pytest.CaptureFixture[str]) -> None:
    async with asking(capfd) as asked:
        for path in ("/state", "/status", "/x"):
            assert (await asked.page(path))[0] == 404
        reply, body = await asyncio.to_thread(fetch, asked.address, "/", "HEAD")
        assert (reply.status, body) == (200, "")
