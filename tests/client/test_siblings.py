"""Both clients: one server at first, then all workers of its host, and the front door whenever these cannot be used."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad._client.channel import pool
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .several_servers import Host, Worker, call, on_workers, running, settled

Connect = Callable[..., Any]
TOKEN = aclgrad.Credentials(token="secret", tls=False)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_S", 0.0)


async def test_calls_go_to_all_workers_after_the_first(connect: Connect) -> None:
    reports: list[aclgrad.CallReport] = []
    with Host().serving() as host:
        client = connect(host.door.address, on_call=reports.append)
        await call(client)
        # A client with one call opens nothing.
        assert (len(host.door.calls), host.door.looks, host.counts) == (1, [], [0, 0])
        await on_workers(client)
        host.forget()
        await call(client, 40)
        assert sum(host.counts) == 40
        assert min(host.counts) >= 15
        assert not host.door.calls
        assert {report.server for report in reports[-2:]} == {worker.address for worker in host.workers}
        assert host.door.looks == []
    assert all(report.error is None for report in reports)


async def test_batches_and_calls_of_threads_go_there_too(connect: Connect) -> None:
    with Host().serving() as host:
        client = connect(host.door.address)
        await on_workers(client)
        host.forget()
        for _ in range(4):
            batch = client.batch()
            batch.execute("pool", {"a": [[[1.0]]]})
            with pytest.raises(aclgrad.ServerFaultError):
                await maybe_await(batch.run())  # It is answered as one call.
        if isinstance(client, aclgrad.Client):
            with ThreadPoolExecutor(16) as threads:
                list(threads.map(lambda _: client.execute("pool", {"a": [[[1.0]]]}), range(16)))
        assert min(host.counts) > 0
        assert not host.door.calls


async def test_token_goes_only_to_servers_that_answered_the_id(connect: Connect) -> None:
    """Strangers: without health, with health of another host, and nobody."""
    strangers = [Worker(None), Worker({"", "aclgrad.v1.OperatorService"})]
    with Host().serving() as host, running(*strangers):
        host.tell(*(each.port for each in (*host.workers, *strangers)), 1)
        client = connect(host.door.address, credentials=TOKEN, metadata={"x-tenant": "vision"})
        await on_workers(client)
        host.forget()
        await call(client, 30)
        assert sum(host.counts) == 30
        assert all(each["authorization"] == "Bearer secret" for worker in host.workers for each in worker.calls)
        assert [each.calls for each in strangers] == [[], []]


async def test_workers_that_cannot_be_reached_leave_the_front_door(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aclgrad")
    stranger = Worker(None)
    with Host().serving() as host, running(stranger):
        host.tell(1, 2, stranger.port)
        client = connect(host.door.address)
        for _ in range(3):
            await on_workers(client)
        assert len(host.door.calls) == 6
        assert not stranger.calls
    assert sum("calls stay with" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("kind", ["old", "alone", "own_port", "denied", "own_config"])
async def test_servers_without_siblings_are_used_as_they_are(connect: Connect, kind: str) -> None:
    with Host().serving() as host:
        if kind == "old":
            host.door.host = pb.Host()
        elif kind == "denied":
            host.door.host = None
        elif kind == "alone":
            host.tell(host.workers[0].port)
        elif kind == "own_port":
            host.door.host.listeners[0].port = 1
        config = {"channel_options": [("grpc.service_config", "{}")]} if kind == "own_config" else {}
        client = connect(host.door.address, **config)
        await on_workers(client)
        await on_workers(client)
        assert (len(host.door.calls), host.counts) == (4, [0, 0])
        assert len(host.door.looks) == (kind != "own_config")


async def test_channel_of_the_user_is_left_alone(connect: Connect) -> None:
    with Host().serving() as host:
        kind = type(connect(host.door.address))
        channel: Any = (grpc if kind is aclgrad.Client else grpc.aio).insecure_channel(host.door.address)
        client = kind(channel=channel)
        await on_workers(client)
        await on_workers(client)
        assert (len(host.door.calls), host.door.looks, host.counts) == (4, [], [0, 0])
        await maybe_await(client.close())
        await maybe_await(channel.close())


async def test_host_that_came_back_with_another_id_and_other_ports(connect: Connect) -> None:
    """Its old ports belong to a stranger now."""
    client = None
    with Host().serving() as first:
        client = connect(first.door.address, credentials=TOKEN)
        await on_workers(client)
        ports = first.ports
    second, strangers = Host(3, "ab" * 16), [Worker(None), Worker({"ab"})]
    with running(*strangers, ports=ports[1:]), second.serving([ports[0], 0, 0, 0]):
        await call(client, 2)
        await settled(client)
        await on_workers(client)
        second.forget()
        await call(client, 30)
        assert sum(second.counts) == 30
        assert min(second.counts) >= 6
        assert not any(each.calls for each in strangers[1:])


async def test_after_a_silence_the_workers_prove_themselves_again(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that ended meanwhile may have left its ports to others: no call and no token goes there."""
    with Host().serving() as host:
        client = connect(host.door.address, credentials=TOKEN)
        await on_workers(client)
        door, ports = host.door, host.ports
        for worker in host.workers:
            worker.stop()
        strangers = [Worker(None), Worker(None)]
        with running(*strangers, ports=ports[1:]):
            monkeypatch.setattr(pool, "IDLE_S", -1.0)
            host.forget()
            await call(client)
            await settled(client)
            monkeypatch.undo()
            await call(client, 10)
            assert len(door.calls) == 11
            assert [each.calls for each in strangers] == [[], []]


async def test_workers_that_ended_leave_the_front_door_at_once(connect: Connect) -> None:
    """Without a retry, and without a wait; a call that met the end of its connection may be lost."""
    with Host().serving() as host:
        client = connect(host.door.address, retries=0, connect_timeout_s=0)
        await on_workers(client)
        for worker in host.workers:
            worker.stop()
        for _ in host.workers:
            with suppress(aclgrad.ConnectionLostError):
                await call(client)
        host.forget()
        await call(client, 5)
        assert len(host.door.calls) == 5


async def test_draining_worker_gets_no_call(connect: Connect) -> None:
    with Host().serving() as host:
        client = connect(host.door.address, retries=0)
        await on_workers(client)
        host.workers[0].drain()
        await call(client, 2)
        host.forget()
        await call(client, 10)
        assert host.counts == [0, 10]


async def test_worker_that_restarts_costs_no_call(connect: Connect) -> None:
    with Host().serving() as host:
        client = connect(host.door.address)
        await on_workers(client)
        port = host.workers[0].port
        host.workers[0].stop()
        await call(client, 10)
        host.workers[0].start(port)
        await settled(client)
        for _ in range(600):
            await call(client, 5)
            if host.workers[0].calls[-1:]:
                break
        host.forget()
        await call(client, 20)
        assert min(host.counts) >= 8


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
