"""What a client does while it looks at its servers: with many threads, with slow name servers, and at its end."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aclgrad
from aclgrad import _addresses, _line_tasks, _line_threads, _lines

from .several_servers import SERVICE, Worker, call, running

Connect = Callable[..., Any]
LONG_S = 20.0


class NameServer:
    """Answers for any name with `numbers`, while it `answers`."""

    def __init__(self) -> None:
        self.numbers = ["127.0.0.1"]
        self.answers = threading.Event()
        self.answers.set()

    def look_up(self, _: str, port: int, **__: Any) -> list[Any]:
        self.answers.wait(LONG_S)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in self.numbers]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(_addresses.socket, "getaddrinfo", server.look_up)
    yield server
    server.answers.set()


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "PAUSE_S", 0.0)
    for each in (_line_tasks, _line_threads):
        monkeypatch.setattr(each, "CHECK_S", 0.3)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Has threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_begin_at_once_all_wait_for_the_names(names: NameServer) -> None:
    workers = [Worker({SERVICE}) for _ in range(2)]
    errors: list[BaseException] = []

    def run(client: aclgrad.Client, together: threading.Barrier) -> None:
        together.wait()
        try:
            client.execute("pool", {"a": [[[1.0]]]})
        except BaseException as error:
            errors.append(error)

    with running(*workers):
        for _ in range(20):
            together = threading.Barrier(16)
            with aclgrad.Client([f"a:{each.port}" for each in workers], retries=0, connect_timeout_s=0) as client:
                threads = [threading.Thread(target=run, args=(client, together)) for _ in range(16)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
    assert not errors


def test_program_ends_while_a_name_server_is_silent(names: NameServer) -> None:
    names.answers.clear()

    async def run() -> None:
        async with aclgrad.AsyncClient("a:1,b:2", timeout_s=0.2) as client:
            with pytest.raises(aclgrad.DeadlinePassedError):
                await call(client)

    start = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - start < LONG_S / 2
