"""The admin listener of a host answers for all workers, whatever becomes of some of them."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aclgrad_server.admin.listener import AdminListener
from aclgrad_server.admin.pages import pages
from aclgrad_server.place import Place
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor.worker import State
from tests.e2e.admin_pages import ask, fetch
from tests.server.supervisor.hosts import FakeWorker, Host, hosting

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


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 21\r\n\r\nInternal Server Error")
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def answering(workers: Iterable[FakeWorker], answer: Answer) -> AsyncIterator[None]:
    servers = [await asyncio.start_unix_server(answer, worker.socket) for worker in workers]
    try:
        yield
    finally:
        for each in servers:
            each.close()


@pytest.mark.parametrize("answer", [None, babble], ids=["nobody", "garbage"])
async def test_pages_tell_of_those_that_answer_and_why_others_do_not(
    capfd: pytest.CaptureFixture[str], answer: Answer | None
) -> None:
    async with asking(capfd, 3, 5) as asked, answering(asked.workers[:1] if answer else (), answer or babble):
        own = asked.host.supervisor.addresses.own
        listener = answer_for(asked.workers[1])
        asked.workers[0].enter(State.GIVEN_UP, "given up: exit code 2")
        asked.workers[0].restarts = 5
        try:
            (metrics_status, metrics), (status, page) = await asked.page("/metrics"), await asked.page("/")
        finally:
            listener.stop()
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


@pytest.mark.parametrize("with_identities", [False, True])
async def test_addresses_are_not_for_everybody_if_calls_need_an_identity(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, with_identities: bool
) -> None:
    identities = tmp_path / "identities.toml" if with_identities else None
    if identities is not None:
        identities.touch()
    async with asking(capfd, 0, 1, identities=identities) as asked:
        addresses = asked.host.supervisor.addresses
        _, page = await asked.page("/")
        for each in addresses.own:
            assert (each[0] in page) is not with_identities
        assert asked.workers[0].socket not in page


async def test_workers_that_do_not_answer_delay_nobody_for_longer_than_one(capfd: pytest.CaptureFixture[str]) -> None:
    async with asking(capfd, *range(9)) as asked, answering(asked.workers[:8], be_silent):
        listener = answer_for(asked.workers[8])
        begin = time.monotonic()
        try:
            (_, metrics), (_, page) = await asyncio.gather(asked.page("/metrics"), asked.page("/"))
        finally:
            listener.stop()
        # One after the other, they would take eight seconds.
        assert time.monotonic() - begin < 5
        assert [metrics.count(f'up{{worker="{number}"}} {float(number == 8)}') for number in range(9)] == [1] * 9
        assert page.count("starting") >= 8


async def test_workers_are_asked_once_for_all_who_want_a_page_meanwhile(capfd: pytest.CaptureFixture[str]) -> None:
    """Otherwise those who read pages take the supervisor's time and files, and it takes its workers for dead."""
    count: Counter[str] = Counter()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count[(await reader.readline()).decode()] += 1
        await be_silent(reader, writer)

    async with asking(capfd, 0, 1) as asked, answering(asked.workers, note):
        pages = await asyncio.gather(*(asked.page(path) for path in ("/", "/metrics") * 3))
        assert len(count) == 2
        # Threads that come late may find the first page made.
        assert max(count.values()) <= 2 * len(asked.workers)
        assert {status for status, _ in pages} == {200}
        # The next one is a new one.
        before = count.copy()
        await asyncio.gather(asked.page("/"), asked.page("/metrics"))
        assert count == {path: each + len(asked.workers) for path, each in before.items()}


async def test_only_these_pages_are_served(capfd: pytest.CaptureFixture[str]) -> None:
    async with asking(capfd) as asked:
        for path in ("/state", "/status", "/x"):
            assert (await asked.page(path))[0] == 404
        reply, body = await asyncio.to_thread(fetch, asked.address, "/", "HEAD")
        assert (reply.status, body) == (200, "")
