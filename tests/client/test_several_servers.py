"""Both clients on real connections: they look, move and close as test_channel_pool_model.py has it on modelled ones."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad._client.channel import pool, probes, resolver
from tools.calling import maybe_await, wait_until

from .conftest import Connect
from .several_servers import SERVICE, Host, Worker, call, on_workers, running, settled

TOKEN = aclgrad.Credentials(token="secret", tls=False)
TIMEOUT_S = 3.0
LONG_S = 20.0


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_S", 0.0)
    monkeypatch.setattr(probes, "CHECK_S", 0.3)


@contextmanager
def hung(worker: Worker) -> Iterator[None]:
    worker.answers.clear()
    try:
        yield
    finally:
        worker.answers.set()


async def test_calls_go_to_all_workers_and_leave_one_that_hangs(connect: Connect) -> None:
    reports: list[aclgrad.CallReport] = []
    with Host().serving() as host:
        client = connect(host.door.address, retries=0, on_call=reports.append)
        await call(client)
        # A client with one call opens nothing.
        assert (len(host.door.calls), host.door.looks, host.counts) == (1, [], [0, 0])
        await on_workers(client)
        host.forget()
        await call(client, 40)
        assert sum(host.counts) == 40
        assert min(host.counts) >= 15
        assert host.door.looks == []
        one, other = host.workers
        with hung(one):
            before, start = len(one.calls), time.monotonic()
            while len(one.calls) == before:
                await call(client, timeout_s=TIMEOUT_S)
            assert TIMEOUT_S / 3 < time.monotonic() - start < TIMEOUT_S
            assert (reports[-1].retries, reports[-1].server, reports[-1].error) == (1, other.address, None)
            before = len(one.calls)
            await call(client, 10)
            assert len(one.calls) == before
    assert all(report.error is None for report in reports)


async def test_hung_front_door_is_left_even_if_healthy_workers_are_slow_to_say_who_they_are(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause a call begins at the front door, whose connection is that of the hung worker."""
    reports: list[aclgrad.CallReport] = []
    with Host().serving() as host:
        client = connect(host.door.address, retries=0, on_call=reports.append)
        await on_workers(client)
        host.workers[1].check_delay_s = 0.6
        with hung(host.door), hung(host.workers[0]):
            monkeypatch.setattr(pool, "IDLE_S", -1.0)
            await call(client, timeout_s=TIMEOUT_S)
        assert reports[-1].server == host.workers[1].address
        assert max(report.seconds for report in reports) < TIMEOUT_S


async def test_token_goes_only_to_servers_that_answered_the_id(connect: Connect) -> None:
    """Strangers: without health, with health of another host, and nobody."""
    strangers = [Worker(None), Worker({"", SERVICE})]
    with Host().serving() as host, running(*strangers):
        host.tell(*(each.port for each in (*host.workers, *strangers)), 1)
        client = connect(host.door.address, credentials=TOKEN, metadata={"x-tenant": "vision"})
        await on_workers(client)
        host.forget()
        await call(client, 30)
        assert sum(host.counts) == 30
        assert all(each["authorization"] == "Bearer secret" for worker in host.workers for each in worker.calls)
        assert [each.calls for each in strangers] == [[], []]


@pytest.mark.parametrize("kind", ["denied", "own_config", "own_channel"])
async def test_servers_without_siblings_are_used_as_they_are(connect: Connect, kind: str) -> None:
    with Host().serving() as host:
        if kind == "denied":
            host.door.host = None
        config = {"channel_options": [("grpc.service_config", "{}")]} if kind == "own_config" else {}
        client = connect(host.door.address, **config)
        if kind == "own_channel":
            library = grpc if isinstance(client, aclgrad.Client) else grpc.aio
            channel: Any = library.insecure_channel(host.door.address)
            client = type(client)(channel=channel)
        await on_workers(client)
        await on_workers(client)
        assert (len(host.door.calls), host.counts) == (4, [0, 0])
        assert len(host.door.looks) == (kind == "denied")
        if kind == "own_channel":
            await maybe_await(client.close())
            await maybe_await(channel.close())


async def test_draining_worker_gets_no_call(connect: Connect) -> None:
    with Host().serving() as host:
        client = connect(host.door.address, retries=0)
        await on_workers(client)
        host.workers[0].drain()
        await call(client, 2)
        host.forget()
        await call(client, 10)
        assert host.counts == [0, 10]


async def test_chunked_call_in_which_nothing_moves_goes_elsewhere(connect: Connect) -> None:
    """Also one that the server has said it takes."""
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = connect([each.address for each in workers], max_message_bytes=1_000_000)
        await call(client, 4)
        for each in workers:
            each.calls.clear()
            each.answers.clear()
        for takes, count in ((False, 2), (True, 4)):
            for worker in workers:
                worker.takes = takes
            with pytest.raises(aclgrad.DeadlinePassedError):
                await maybe_await(client.execute("pool", {"a": [[[1.0] * 300_000]]}, timeout_s=1.5))
            assert sum(len(worker.calls) for worker in workers) == count


async def test_closed_client_leaves_no_thread(connect: Connect) -> None:
    before = set(threading.enumerate())
    with Host().serving() as host:
        client = connect(host.door.address)
        await call(client, 2)
        await maybe_await(client.close())
        client = connect(host.door.address)
        await on_workers(client)
        await maybe_await(client.close())
        with pytest.raises(aclgrad.CallCancelledError):
            await call(client)
    left = {each.name for each in set(threading.enumerate()) - before}
    assert not any(name.startswith("aclgrad") for name in left)


def test_close_ends_a_look_at_a_hung_server() -> None:
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = aclgrad.Client([each.address for each in workers])
        client.execute("pool", {"a": [[[1.0]]]})
        for each in workers:
            each.answers.clear()
        ends: list[BaseException] = []

        def run() -> None:
            try:
                client.execute("pool", {"a": [[[1.0]]]}, timeout_s=1.2)
            except aclgrad.AclgradError as error:
                ends.append(error)

        caller = threading.Thread(target=run)
        caller.start()
        wait_until(lambda: any("Check" in each.looks for each in workers))
        client.close()
        caller.join(10)
        assert [type(each) for each in ends] == [aclgrad.CallCancelledError]


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Has every name be that of loopback, while the event is set."""
    answers = threading.Event()
    answers.set()

    def look_up(_: str, port: int, **__: Any) -> list[Any]:
        answers.wait(LONG_S)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(resolver.socket, "getaddrinfo", look_up)
    yield answers
    answers.set()


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Has threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads", "name_server")
def test_threads_that_begin_at_once_all_wait_for_the_names() -> None:
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


async def test_slow_name_server_costs_no_more_than_the_time_of_the_call(
    connect: Connect, name_server: threading.Event
) -> None:
    name_server.clear()
    with pytest.raises(aclgrad.DeadlinePassedError):
        await call(connect("a:1,b:2", timeout_s=0.2))


def test_program_ends_while_a_name_server_is_silent(name_server: threading.Event) -> None:
    name_server.clear()

    async def run() -> None:
        async with aclgrad.AsyncClient("a:1,b:2", timeout_s=0.2) as client:
            with pytest.raises(aclgrad.DeadlinePassedError):
                await call(client)

    start = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - start < LONG_S / 2


async def test_names_of_dns_are_checked_by_the_numbers_that_the_system_finds(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC finds both loopbacks by itself, follows the name again afterwards, and one server answers all calls."""
    first, second = Worker({SERVICE}), Worker({SERVICE})
    families = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}

    def look_up(_: str, port: int, **__: Any) -> list[Any]:
        return [(family, socket.SOCK_STREAM, 6, "", (host, port)) for host, family in families.items()]

    monkeypatch.setattr(resolver.socket, "getaddrinfo", look_up)
    with running(first), running(second, ports=[first.port], host="[::1]"):
        client = connect(f"dns:///localhost:{first.port}", retries=0)
        while not (first.calls and second.calls):
            await call(client)
        with hung(first):
            before = len(first.calls)
            while len(first.calls) == before:
                await call(client, timeout_s=TIMEOUT_S)
            await call(client, 10)
            assert len(first.calls) == before + 1
        monkeypatch.setattr(client._channels, "_due_at", 0.0)  # noqa: SLF001 - five seconds have passed
        await settled(client)
        while len(first.calls) == before + 1:
            await call(client)
