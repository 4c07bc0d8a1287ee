"""Both clients of a `dns:` target, which gRPC looks up: a server that says nothing is left out as one of a list is."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aclgrad
from aclgrad._client.channel import pool, probes, resolver
from aclgrad._client.channel.probes import MOST_NAMED, Answer, answers_of_each
from aclgrad._client.channel.resolver import Found
from aclgrad._client.channel.servers import Balancing, Endpoints, servers_of

from .several_servers import SERVICE, Worker, call, running, settled

Connect = Callable[..., Any]
TIMEOUT_S = 3.0
FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_S", 0.0)
    monkeypatch.setattr(probes, "CHECK_S", 0.3)


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    """Two servers of one port, at the two addresses that gRPC finds for `localhost` everywhere."""

    def look_up(_: str, port: int, **__: Any) -> list[Any]:
        return [(family, socket.SOCK_STREAM, 6, "", (host, port)) for host, family in FAMILIES.items()]

    monkeypatch.setattr(resolver.socket, "getaddrinfo", look_up)
    first, second = Worker({SERVICE}), Worker({SERVICE})
    with running(first), running(second, ports=[first.port], host="[::1]"):
        yield [first, second]


async def meet(client: Any, worker: Worker) -> None:
    """Makes calls until one has met the server."""
    before = len(worker.calls)
    while len(worker.calls) == before:
        await call(client, timeout_s=TIMEOUT_S)


def target_of(client: Any) -> str:
    return client._channels._current.endpoints.target  # type: ignore[no-any-return]  # noqa: SLF001


async def test_another_server_answers_and_gRPC_follows_the_name_again_afterwards(  # noqa: N802
    connect: Connect, pods: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[aclgrad.CallReport] = []
    target = f"dns:///localhost:{pods[0].port}"
    client = connect(target, retries=0, on_call=reports.append)
    for each in pods:
        await meet(client, each)
    pods[0].answers.clear()
    start = time.monotonic()
    await meet(client, pods[0])
    assert TIMEOUT_S / 3 < time.monotonic() - start < TIMEOUT_S
    assert (reports[-1].retries, reports[-1].error) == (1, None)
    before = len(pods[0].calls)
    await call(client, 10)
    assert len(pods[0].calls) == before
    assert target_of(client) == f"ipv6:[::1]:{pods[0].port}"
    pods[0].answers.set()
    monkeypatch.setattr(client._channels, "_due_at", 0.0)  # noqa: SLF001 - five seconds have passed
    await settled(client)
    assert target_of(client) == target
    await meet(client, pods[0])


async def test_numbers_that_are_lost_are_looked_up_again(connect: Connect, pods: list[Worker]) -> None:
    """While one server is left out, the others may be replaced. A call may be on its way to one as it stops."""
    client = connect(f"dns:///localhost:{pods[0].port}", retries=1)
    await meet(client, pods[1])
    pods[0].answers.clear()
    await meet(client, pods[0])
    pods[1].stop()
    pods[0].answers.set()
    await call(client, timeout_s=TIMEOUT_S)
    await settled(client)
    await call(client, timeout_s=TIMEOUT_S)
    assert target_of(client).startswith("dns:")


def test_a_name_server_of_the_target_is_for_grpc_alone() -> None:
    assert servers_of("dns:///a.example:1").names == ("a.example:1",)
    assert servers_of("dns:a.example:1").names == ("a.example:1",)
    assert servers_of("dns://192.0.2.1:53/a.example:1").names == ()
    assert servers_of("dns:///a.example:1", options={"grpc.service_config": "{}"}).names == ()


def test_numbers_of_a_name_have_its_certificates() -> None:
    for target, name in (("dns:///a.example:1", "a.example"), ("dns:///[::1]:1", "::1")):
        endpoints = servers_of(target, has_tls=True).listed_endpoints(Found({"x": ("192.0.2.1:1",)}))
        assert endpoints is not None
        assert ("grpc.ssl_target_name_override", name) in endpoints.options
    endpoints = servers_of("dns:///a.example:1", "b.example", has_tls=True).listed_endpoints(
        Found({"x": ("192.0.2.1:1",)})
    )
    assert endpoints is not None
    assert ("grpc.ssl_target_name_override", "b.example") in endpoints.options


async def test_a_name_of_very_many_servers_is_left_to_grpc() -> None:
    addresses = tuple(f"192.0.2.1:{port}" for port in range(1, MOST_NAMED + 2))
    endpoints = Endpoints("ipv4:", (), Balancing.LISTED, SERVICE, addresses)
    network: Any = None
    assert set((await answers_of_each(network, endpoints, set(), MOST_NAMED)).values()) == {Answer.HERE}
