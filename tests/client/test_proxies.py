"""Each server of a list follows the rules of gRPC for proxies as if it were the only one."""

import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad._client.channel import pool
from aclgrad._client.channel.proxies import EXCEPTIONS, VARIABLES, proxy_rules
from aclgrad._client.channel.resolver import look_up
from aclgrad._client.channel.servers import servers_of
from tests.commands import peers
from tools.calling import maybe_await

from .conftest import Connect
from .proxy_cases import CASES
from .several_servers import SERVICE, Host, Worker, call, on_workers, running

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


@pytest.fixture(scope="module")
def running_host() -> Iterator[Host]:
    with Host().serving() as host:
        yield host


@pytest.fixture
def host(running_host: Host) -> Host:
    """A host that no call has reached yet."""
    running_host.forget()
    return running_host


def target_of(kind: str, host: Host) -> Any:
    addresses = [worker.address for worker in host.workers]
    targets = {"list": addresses, "function": lambda: addresses}
    return targets.get(kind, host.door.address)


async def meet(client: Any, servers: list[Worker]) -> None:
    """Makes calls until each of the servers has answered one; those of a list connect one after the other."""
    end = time.monotonic() + 30.0
    while not all(each.calls for each in servers):
        assert time.monotonic() < end
        await call(client, 5)


@pytest.mark.parametrize("kind", ["function", "workers"])
@pytest.mark.parametrize("way", ["no_proxy", "proxy"])
async def test_calls_go_to_all_servers_on_the_way_that_the_variables_name(
    connect: Connect, proxy: Proxy, kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "no_proxy":
        monkeypatch.setenv("http_proxy", NOBODY)
        monkeypatch.setenv("no_proxy", "localhost,127.0.0.0/8")
    else:
        monkeypatch.setenv("grpc_proxy", f"http://trainer:secret@{proxy.address}")
    with Host().serving() as host:
        client = connect(target_of(kind, host))
        await on_workers(client)
        host.forget()
        await meet(client, host.workers)
        assert not host.door.calls
        named = {each.address for each in (host.door, *host.workers)[kind != "workers" :]}
        assert proxy.asked == (named if way == "proxy" else set())
    # "trainer:secret", as RFC 7617 writes it.
    assert all("Proxy-Authorization: Basic dHJhaW5lcjpzZWNyZXQ=" in each for each in proxy.requests)


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
    connect: Connect, proxy: Proxy, host: Host, options: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
    await meet(connect(target_of("list", host), channel_options=options), host.workers)
    assert bool(proxy.asked) is bool(options[0][1])


async def test_a_proxy_whose_name_is_unknown_is_named(
    connect: Connect, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aclgrad")
    monkeypatch.setenv("http_proxy", "http://no-such-proxy.invalid:3128")
    client = connect(target_of("list", host), connect_timeout_s=0)
    with pytest.raises(
        aclgrad.ServerUnreachableError, match=r"the proxy no-such-proxy\.invalid:3128 of http_proxy"
    ) as caught:
        await call(client)
    text = "the proxy no-such-proxy.invalid:3128 of http_proxy cannot be looked up: Name or service not known"
    assert [each.getMessage() for each in caplog.records if each.module == "resolver"] == [text]
    assert text in str(caught.value)


@pytest.mark.parametrize(("variables", "is_used"), CASES.values(), ids=CASES)
async def test_a_list_follows_the_rules_of_grpc(
    connect: Connect,
    proxy: Proxy,
    host: Host,
    variables: dict[str, str],
    is_used: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """gRPC itself, with one of the servers, goes the same way and sends the same password."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("PROXY", proxy.address))
    with grpc.insecure_channel(host.workers[0].address) as channel:
        channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10)
    by_grpc = {password_of(each) for each in proxy.requests}
    assert bool(by_grpc) is is_used
    proxy.requests.clear()
    await meet(connect(target_of("list", host)), host.workers)
    assert {password_of(each) for each in proxy.requests} == by_grpc


def password_of(request: str) -> str:
    lines = [each for each in request.splitlines() if each.startswith("Proxy-Authorization")]
    return lines[0].split()[-1] if lines else ""


UNUSABLE = ["127.0.0.1:99999", "127.0.0.1:abc", ":3128", "[::1", "a b:3128", "[127.0.0.1]:1"]


@pytest.mark.parametrize("kind", ["one", "list", "function"])
async def test_a_proxy_that_cannot_be_used_is_named_and_never_passed_by(
    connect: Connect, host: Host, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dict.fromkeys(UNUSABLE, "correct http_proxy, or add the host to no_proxy")
    for place, remedy in (rows | {"127.0.0.1:1": "gRPC goes through the proxy 127.0.0.1:1 of http_proxy"}).items():
        monkeypatch.setenv("http_proxy", f"http://trainer:secret@{place}")
        with pytest.raises(aclgrad.ServerUnreachableError, match="of http_proxy") as caught:
            await call(connect(target_of(kind, host), connect_timeout_s=0))
        assert remedy in str(caught.value)
        assert "secret" not in str(caught.value)
    assert not any(each.calls for each in (host.door, *host.workers))


@pytest.mark.parametrize("kind", ["one", "list"])
async def test_the_exception_that_grpc_reads_is_named(
    connect: Connect, host: Host, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_grpc_proxy", "a.example")
    with peers.listening(peers.want_another_password) as address:
        monkeypatch.setenv("http_proxy", f"http://trainer:secret@{address}")
        client = connect(target_of(kind, host), connect_timeout_s=0.3)
        with pytest.raises(aclgrad.ServerUnreachableError, match="check the user and the password") as caught:
            await call(client)
    assert "add the host to no_grpc_proxy, which hides no_proxy," in str(caught.value)
    assert "secret" not in str(caught.value)


class Names:
    """What names stand for; a name that is not there cannot be looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **numbers: list[str]) -> None:
        self.numbers = numbers
        self._genuine = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host: str, *rest: Any, **options: Any) -> list[Any]:
        if host[0].isdigit():
            return self._genuine(host, *rest, **options)
        if host not in self.numbers:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [found for each in self.numbers[host] for found in self._genuine(each, *rest, **options)]


async def test_each_number_of_a_proxy_is_tried(
    connect: Connect, proxy: Proxy, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    Names(monkeypatch, proxy=["127.0.0.9", "::1", "127.0.0.8", "127.0.0.1"])
    monkeypatch.setenv("http_proxy", f"http://proxy:{proxy.address.rpartition(':')[2]}")
    await meet(connect(target_of("list", host)), host.workers)
    assert proxy.asked == {each.address for each in host.workers}


def test_the_number_of_a_proxy_is_kept_while_its_name_is_unknown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = Names(monkeypatch, proxy=["127.0.0.1"], **{"a.example": ["127.0.0.2"]})
    rules = proxy_rules({"http_proxy": "http://proxy:3128"})
    before = look_up(["a.example:1"], rules)
    assert dict(before.options)["grpc.address_http_proxy"] == "127.0.0.1:3128"
    proxy = names.numbers.pop("proxy")
    for _ in range(3):
        assert look_up(["a.example:1"], rules) == before
    text = "the proxy proxy:3128 of http_proxy cannot be looked up: Temporary failure in name resolution"
    assert caplog.messages == [text]
    names.numbers["proxy"] = ["127.0.0.3"]
    assert dict(look_up(["a.example:1"], rules).options)["grpc.address_http_proxy"] == "127.0.0.3:3128"
    names.numbers["proxy"] = proxy
    assert look_up(["a.example:1"], rules) == before


def test_a_name_that_is_unknown_is_logged_once_until_it_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = Names(monkeypatch)
    rules = proxy_rules({"http_proxy": "http://127.0.0.1:3128"})
    workers = [f"host:{port}" for port in range(1, 4)]
    text = "host:1, host:2, host:3 are left out: Temporary failure in name resolution"
    for _ in range(3):
        assert look_up(workers, rules).numbers == {}
    assert caplog.messages == [text]
    names.numbers["host"] = ["127.0.0.1"]
    assert list(look_up(workers, rules).numbers) == workers
    names.numbers.clear()
    look_up(workers, rules)
    assert caplog.messages == [text, text]


def test_what_a_function_names_in_vain_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    rules = proxy_rules({})
    for _ in range(3):
        assert list(look_up(lambda: ["127.0.0.1:1", "unix:/a"], rules).numbers) == ["127.0.0.1:1"]
    assert caplog.messages == ["unix:/a is left out: a function names servers by host:port"]


def test_no_password_is_shown() -> None:
    rules = proxy_rules({"http_proxy": "http://trainer:secret@127.0.0.1:1"})
    servers = servers_of(["127.0.0.1:1", "127.0.0.1:2"], rules=rules)
    shown = f"{servers!r} {servers.endpoints!r} {look_up(['127.0.0.1:1'], rules)!r} {rules!r} {rules.proxy!r}"
    assert "127.0.0.1:1" in shown
    assert not any(each in shown for each in ("secret", "dHJhaW5lcjpzZWNyZXQ="))
