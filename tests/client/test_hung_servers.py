"""Both clients: a server that takes calls and says nothing costs a third of the time of one call, and then nothing."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import aclgrad
from aclgrad._client.channel import pool, probes
from tools.calling import maybe_await, wait_until

from .several_servers import SERVICE, Host, Worker, call, on_workers, running, settled

Connect = Callable[..., Any]
TIMEOUT_S = 3.0


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


async def met(client: Any, worker: Worker) -> None:
    """Makes calls until one has met the worker."""
    before = len(worker.calls)
    while len(worker.calls) == before:
        await call(client, timeout_s=TIMEOUT_S)


@pytest.mark.parametrize("kind", ["workers", "list"])
async def test_another_server_answers_and_the_hung_one_gets_no_more_calls(connect: Connect, kind: str) -> None:
    reports: list[aclgrad.CallReport] = []
    with Host().serving() as host:
        one, other = host.workers
        target = host.door.address if kind == "workers" else [one.address, other.address]
        client = connect(target, retries=0, on_call=reports.append)
        await on_workers(client)
        await call(client, 4)
        with hung(one):
            start = time.monotonic()
            await met(client, one)
            assert TIMEOUT_S / 3 < time.monotonic() - start < TIMEOUT_S
            assert (reports[-1].retries, reports[-1].server, reports[-1].error) == (1, other.address, None)
            before = len(one.calls)
            await call(client, 10)
            assert len(one.calls) == before
            assert all(report.retries == 0 for report in reports[-10:])


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
            await call(client, 3, timeout_s=TIMEOUT_S)
        assert [report.server for report in reports[-3:]] == [host.workers[1].address] * 3
        assert max(report.seconds for report in reports) < TIMEOUT_S


async def test_server_that_answers_again_gets_calls_again(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = connect([each.address for each in workers])
        await call(client, 4)
        with hung(workers[0]):
            await met(client, workers[0])
        monkeypatch.setattr(client._channels, "_due_at", 0.0)  # noqa: SLF001 - five seconds have passed
        await settled(client)
        await met(client, workers[0])


async def test_call_that_is_only_slow_goes_once_to_each_server_and_stays_with_the_last(connect: Connect) -> None:
    """Both answer whoever looks at them; at which of them the first attempt was, gRPC does not say."""
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = connect([each.address for each in workers], retries=0)
        await call(client, 4)
        for each in workers:
            each.calls.clear()
            each.delay_s = 2.05
        await call(client, timeout_s=6.0)
        assert sorted(len(each.calls) for each in workers) == [1, 2]
        for each in workers:
            each.calls.clear()
        with pytest.raises(aclgrad.DeadlinePassedError, match="the attempt before it failed"):
            await call(client, timeout_s=0.9)
        assert sorted(len(each.calls) for each in workers) == [1, 2]
        # A call without a limit waits.
        await call(client, timeout_s=None)


async def test_single_server_has_all_the_time(connect: Connect) -> None:
    worker = Worker({SERVICE})
    with running(worker):
        worker.delay_s = 0.5
        client = connect(worker.address, retries=0)
        await call(client, 3, timeout_s=1.2)
        assert len(worker.calls) == 3


async def test_chunked_call_in_which_nothing_moves_goes_elsewhere(connect: Connect) -> None:
    """Also one that the server has said it takes."""
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = connect([each.address for each in workers], max_message_bytes=1_000_000)
        await call(client, 4)
        for each in workers:
            each.calls.clear()
            each.answers.clear()
        for each, count in ((False, 2), (True, 4)):
            for worker in workers:
                worker.takes = each
            with pytest.raises(aclgrad.DeadlinePassedError):
                await maybe_await(client.execute("pool", {"a": [[[1.0] * 300_000]]}, timeout_s=0.6))
            assert sum(len(worker.calls) for worker in workers) == count


async def test_all_servers_hang(connect: Connect) -> None:
    """It is rather this side that hears nobody: the list stays as it is."""
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        client = connect([each.address for each in workers])
        await call(client, 4)
        with hung(workers[0]), hung(workers[1]), pytest.raises(aclgrad.DeadlinePassedError):
            await call(client, timeout_s=1.0)
        await call(client, 4)
        await met(client, workers[0])
        await met(client, workers[1])


async def test_many_calls_at_once_all_succeed(connect: Connect) -> None:
    with Host().serving() as host:
        client = connect(host.door.address, retries=0)
        await on_workers(client)
        await call(client, 4)
        with hung(host.workers[0]):
            if isinstance(client, aclgrad.AsyncClient):
                await asyncio.gather(*(call(client, timeout_s=6.0) for _ in range(12)))
            else:
                with ThreadPoolExecutor(12) as threads:
                    list(threads.map(lambda _: client.execute("pool", {"a": [[[1.0]]]}, timeout_s=6.0), range(12)))
        assert host.workers[0].calls


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
