"""Each server of a list follows the rules of gRPC for proxies as if it were the only one."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aclgrad
from aclgrad._client.channel import pool
from aclgrad._client.channel.proxies import EXCEPTIONS, VARIABLES
from aclgrad.v1 import operator_service_pb2 as pb
from tests.commands import peers
from tools.calling import maybe_await

from .several_servers import SERVICE, Host, Worker, call, on_workers, running

Connect = Callable[..., Any]
KINDS = ["one", "list", "text", "function", "workers"]
NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_S", 0.0)
    for name in (*VARIABLES, *EXCEPTIONS):
        monkeypatch.delenv(name, raising=False)


class Proxy(peers.HttpProxy):
    address = ""

    @property
    def asked(self) -> set[str]:
        return {request.split()[1] for request in self.requests}


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    with peers.listening(made.behave) as made.address:
        yield made


def target_of(kind: str, host: Host) -> Any:
    addresses = [worker.address for worker in host.workers]
    targets = {"list": addresses, "text": ",".join(addresses), "function": lambda: addresses}
    return targets.get(kind, host.door.address)


async def meet(client: Any, servers: list[Worker]) -> None:
    """Makes calls until each of the servers has answered one; those of a list connect one after the other."""
    end = time.monotonic() + 30.0
    while not all(each.calls for each in servers):
        assert time.monotonic() < end
        await call(client, 5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["no_variable", "no_proxy", "another_scheme", "proxy", "proxy_with_password"])
async def test_calls_go_to_all_servers_on_the_way_that_the_variables_name(
    connect: Connect, proxy: Proxy, kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "no_proxy":
        monkeypatch.setenv("http_proxy", NOBODY)
        monkeypatch.setenv("no_proxy", "localhost,127.0.0.0/8")
    elif way == "another_scheme":
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    elif way == "proxy":
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
    elif way == "proxy_with_password":
        monkeypatch.setenv("grpc_proxy", f"http://trainer:secret@{proxy.address}")
    with Host().serving() as host:
        client = connect(target_of(kind, host))
        if kind == "one":
            host.door.host = pb.Host()
        await on_workers(client)
        host.forget()
        servers = [host.door] if kind == "one" else host.workers
        await meet(client, servers)
        named = {each.address for each in servers}
        assert {each.address for each in (host.door, *host.workers) if each.calls} == named
        is_asked = way.startswith("proxy")
        assert proxy.asked == ((named | {host.door.address} if kind == "workers" else named) if is_asked else set())
    # "trainer:secret", as RFC 7617 writes it.
    with_password = ["Proxy-Authorization: Basic dHJhaW5lcjpzZWNyZXQ=" in each for each in proxy.requests]
    assert all(with_password) if way == "proxy_with_password" else not any(with_password)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_proxy_that_is_not_there_is_named(connect: Connect, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", NOBODY)
    with Host().serving() as host:
        client = connect(target_of(kind, host), connect_timeout_s=0.3)
        with pytest.raises(aclgrad.ServerUnreachableError) as caught:
            await call(client)
    assert "gRPC goes through the proxy 127.0.0.1:1 of http_proxy" in str(caught.value)
    assert "no_proxy" in str(caught.value)


async def test_mixed_lists(connect: Connect, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, network and name: an exception for one server leaves the others behind the proxy."""
    numbers = {"a.example": "127.0.0.1", "b.other": "127.0.0.3", "proxy.example": "127.0.0.1"}
    genuine = socket.getaddrinfo

    def look_up(host: str, *rest: Any, **options: Any) -> list[Any]:
        return genuine(numbers.get(host, host), *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("http_proxy", f"http://proxy.example:{proxy.address.rpartition(':')[2]}")
    monkeypatch.setenv("no_proxy", ".example, 127.0.0.2/32")
    direct, behind = [Worker({SERVICE}) for _ in range(2)], [Worker({SERVICE}) for _ in range(2)]
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"]
    servers = [*direct, *behind]
    with running(servers[0], host=hosts[0]), running(servers[1], host=hosts[1]):  # noqa: SIM117 - one host each
        with running(servers[2], host=hosts[2]), running(servers[3], host="[::1]"):
            ports = [each.port for each in servers]
            client = connect(
                [f"a.example:{ports[0]}", f"127.0.0.2:{ports[1]}", f"b.other:{ports[2]}", f"[::1]:{ports[3]}"]
            )
            await meet(client, servers)
            await maybe_await(client.close())
    assert proxy.asked == {f"127.0.0.3:{ports[2]}", f"[::1]:{ports[3]}"}


@pytest.mark.parametrize("options", [[("grpc.enable_http_proxy", 0)], [("grpc.enable_http_proxy", 1)]])
async def test_the_option_of_grpc_applies_to_lists_too(
    connect: Connect, proxy: Proxy, options: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
    with Host().serving() as host:
        client = connect(target_of("list", host), channel_options=options)
        await meet(client, host.workers)
    assert bool(proxy.asked) is bool(options[0][1])


async def test_a_proxy_whose_name_is_unknown_is_named(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aclgrad")
    monkeypatch.setenv("http_proxy", "http://no-such-proxy.invalid:3128")
    with Host().serving() as host:
        client = connect(target_of("list", host), connect_timeout_s=0.3)
        with pytest.raises(
            aclgrad.ServerUnreachableError, match=r"the proxy no-such-proxy\.invalid:3128 of http_proxy"
        ):
            await call(client)
    assert "no-such-proxy.invalid:3128 is left out" in caplog.text
