"""A supervisor whose workers have no processes: tests say what becomes of them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aclgrad_server.place import Orders
from aclgrad_server.settings import OFF, Settings
from aclgrad_server.supervisor.supervisor import Supervisor
from aclgrad_server.supervisor.worker import State
from tests.server.fakes import settle

LISTEN = ("127.0.0.1:0",)


class FakeWorker:
    """Implements `supervisor.worker.Worker`: it is what a test makes it, and notes what it is asked."""

    def __init__(self, orders: Orders, on_change: Callable[["FakeWorker"], None]) -> None:
        self.index = orders.place.index
        self.orders = orders
        self.socket = orders.settings.admin.removeprefix("unix:")
        self.state = State.STARTING
        self.reason = "starting"
        self.restarts = 0
        self.exit_code: int | None = None
        self.was_cut = False
        self.stop_count = 0
        self.signals: list[int] = []
        self.renewals: list[Settings] = []
        self.is_renewed_well = True
        self.may_renew = asyncio.Event()
        self.may_renew.set()
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.failure: Exception | None = None
        self._ended = asyncio.Event()
        self._on_change = on_change

    def enter(self, state: State, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self._on_change(self)

    def give_up(self, code: int) -> None:
        self.exit_code = code
        self.enter(State.GIVEN_UP, f"given up: exit code {code}")

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self._ended.set()

    async def keep(self) -> None:
        await self._ended.wait()
        if self.failure is not None:
            raise self.failure

    async def renew(self, orders: Orders) -> bool:
        self.orders = orders
        self.renewals.append(orders.settings)
        await self.may_renew.wait()
        return self.is_renewed_well

    async def stop(self) -> None:
        self.stop_count += 1
        await self.may_stop.wait()
        self._ended.set()

    def send(self, number: int) -> None:
        self.signals.append(number)


class Host:
    """A supervisor that runs. What it reads at a renewal is `next_settings`, or the error in it."""

    def __init__(self, cards: Sequence[int], **settings: Any) -> None:
        self.next_settings: Settings | Exception = settings_of(**settings)
        assert isinstance(self.next_settings, Settings)
        self.is_asked_to_stop = False
        self.supervisor = Supervisor(self.next_settings, cards, self._reread)
        self.end = asyncio.create_task(self.supervisor.run())

    @property
    def workers(self) -> Sequence[FakeWorker]:
        return self.supervisor.workers  # type: ignore[return-value]

    async def signal(self, number: signal.Signals) -> None:
        self.is_asked_to_stop |= number != signal.SIGHUP
        os.kill(os.getpid(), number)
        await settle()

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self.end, 30)

    def _reread(self) -> Settings:
        if isinstance(self.next_settings, Exception):
            raise self.next_settings
        return self.next_settings


def settings_of(**changed: Any) -> Settings:
    return Settings(**{"listen": LISTEN, "admin": OFF} | changed)


@asynccontextmanager
async def hosting(*cards: int, **settings: Any) -> AsyncIterator[Host]:
    """Yields a host on these cards, which ends with the block."""
    host = Host(cards or (0, 1), **settings)
    try:
        await settle()
        yield host
        # A second signal would end this process, which is that of the tests.
        if not (host.end.done() or host.is_asked_to_stop):
            await host.signal(signal.SIGTERM)
        for worker in host.workers:
            worker.may_stop.set()
        await host.exit_code()
    finally:
        host.end.cancel()
