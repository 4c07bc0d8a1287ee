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
from aclgrad._client.channel import pool, probes, resolver

from .several_servers import SERVICE, Host, Worker, call, on_workers, running, settled

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
    monkeypatch.setattr(resolver.socket, "getaddrinfo", server.look_up)
    yield server
    server.answers.set()


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_S", 0.0)
    monkeypatch.setattr(probes, "CHECK_S", 0.3)


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


async def test_call_that_met_a_hung_server_waits_for_no_name_server(connect: Connect, names: NameServer) -> None:
    """Nor does it spend all of its time on the look, where one is under way that asks for names."""
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = connect([f"a:{each.port}" for each in workers], retries=0)
        await call(client, 6)
        await settled(client)
        names.answers.clear()
        workers[0].answers.clear()
        before = len(workers[0].calls)
        while len(workers[0].calls) == before:
            await call(client, timeout_s=3.0)
        before = len(workers[0].calls)
        await call(client, 10, timeout_s=3.0)
        assert len(workers[0].calls) == before
        names.answers.set()


async def test_names_are_asked_after_a_look_without_them(connect: Connect, names: NameServer) -> None:
    first, second = Worker({SERVICE}), Worker({SERVICE})
    with running(first), running(second, ports=[first.port], host="127.0.0.2"):
        client = connect([f"a:{first.port}", f"b:{first.port}"])
        await call(client, 2)
        await settled(client)
        names.numbers = ["127.0.0.1", "127.0.0.2"]
        first.answers.clear()
        with pytest.raises(aclgrad.DeadlinePassedError):
            await call(client, timeout_s=0.3)
        first.answers.set()
        await call(client)
        await settled(client)
        await call(client, 4)
        assert second.calls


async def test_order_of_the_numbers_changes_nothing(connect: Connect, names: NameServer) -> None:
    first, second = Worker({SERVICE}), Worker({SERVICE})
    with running(first), running(second, ports=[first.port], host="127.0.0.2"):
        names.numbers = ["127.0.0.1", "127.0.0.2"]
        client = connect([f"a:{first.port}", f"b:{first.port}"])
        await call(client, 4)
        await settled(client)
        line = client._channels.take()  # noqa: SLF001
        client._channels.give_back(line)  # noqa: SLF001
        names.numbers.reverse()
        client._channels.failed(line, aclgrad.ConnectionLostError("as after a lost connection"), moves=False)  # noqa: SLF001
        await settled(client)
        assert client._channels.take() is line  # noqa: SLF001


async def test_workers_that_were_slow_to_answer_are_used_later(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_FIRST_WAIT_S", 0.0)
    with Host().serving() as host:
        client = connect(host.door.address)
        for each in host.workers:
            each.answers.clear()
        await on_workers(client)
        assert host.counts == [0, 0]
        for each in host.workers:
            each.answers.set()
        await on_workers(client)
        host.forget()
        await call(client, 10)
        assert sum(host.counts) == 10


@pytest.mark.parametrize("told", ["long_id", "no_ports", "one_port_often", "ports_of_a_scan"])
async def test_host_that_tells_nonsense(connect: Connect, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls go on, and the client connects to no more places than a host has workers."""
    monkeypatch.setattr(probes, "CHECK_S", 10.0)
    ends: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", ends.append)
    with Host().serving() as host:
        ports = [each.port for each in host.workers]
        if told == "long_id":
            host.id = "x" * 300
        elif told == "no_ports":
            ports += [0, 65536, 70000, 2**31 - 1]
        elif told == "one_port_often":
            ports = ports[:1] * 5
        else:
            ports += range(1, 3000)
        host.tell(*ports)
        client = connect(host.door.address)
        await on_workers(client)
        host.forget()
        await call(client, 10)
        is_used = told in ("no_ports", "ports_of_a_scan")
        assert (sum(host.counts), len(host.door.calls)) == ((10, 0) if is_used else (0, 10))
        used = client._channels._known  # noqa: SLF001
        assert len(used.addresses if used else ()) <= 64
    assert not ends
