"""Both clients: several servers in one target, and the lists that make no sense."""

import asyncio
import re
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad._client.attempts.retry_budget import BURST
from aclgrad._client.channel import pool, resolver
from aclgrad._client.channel.discovery import MOST_NAMED, Discovery
from aclgrad._client.channel.pool import ChannelPool
from aclgrad._client.channel.probes import Answer, Channel, Network
from aclgrad._client.channel.proxies import ProxyRules, proxy_rules
from aclgrad._client.channel.resolver import Addresses, Found, SourceError, target_of
from aclgrad._client.channel.servers import Endpoints, servers_of
from aclgrad.testing import serve
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await, wait_until

from .conftest import Connect, begin, end_as
from .scripted_service import INPUTS, ScriptedService, failing, listening, serving
from .several_servers import HOST_ID, SERVICE, Worker, call, running

TLS = aclgrad.Credentials()
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "empty_entry": ("a:1,,b:2", {}, "target is 'a:1,,b:2': it has an empty entry"),
    "comma_at_the_end": ("a:1,", {}, "target is 'a:1,': it has an empty entry"),
    "entry_without_port": (["a:1", "b"], {}, "target is 'b': it names no port"),
    "no_text": (["a:1", 2], {}, "target is 2: it is no string"),
    "semicolon": ("a:1;b:2", {}, "target is 'a:1;b:2': it is no host and port"),
    "list_of_a_name": ("dns:///a:1,b:2", {}, "target is 'dns:///a:1,b:2': it is no host and port"),
    "mixed": ("a:1,unix:/b", {}, "mixes addresses of several kinds"),
    "schemes": (["dns:///a:1", "dns:///b:1"], {}, "mixes addresses of several kinds"),
    "tls": ("a:1,b:2", {"credentials": TLS}, "names several servers, and with TLS all of them have to answer to one"),
    "tls_of_a_function": (lambda: "a:1,b:2", {"credentials": TLS}, "with TLS all of them"),
    "tls_of_numbers": ("ipv4:10.0.0.1:1,10.0.0.2:2", {"credentials": TLS}, "with TLS all of them"),
    "coroutine_function": (asyncio.sleep, {}, "it is a coroutine function; give a function that is asked on a thread"),
    "shared_memory": ("unix:/a,unix:/b", {"shared_memory": True}, "shared_memory is True, and unix:/a,unix:/b names"),
    "shared_memory_by_a_function": (lambda: "unix:/a", {"shared_memory": True}, "names several servers"),
    "shared_memory_by_dns": ("dns:///a:1", {"shared_memory": True}, "shared_memory is True, and dns:///a:1 names"),
}


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PAUSE_S", 0.0)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A name server: the numbers of names."""
    known: dict[str, list[str]] = {}

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in known[host]]

    monkeypatch.setattr(resolver.socket, "getaddrinfo", look_up)
    return known


@pytest.mark.parametrize(("target", "settings", "problem"), REFUSED.values(), ids=REFUSED)
async def test_a_list_that_makes_no_sense(connect: Connect, target: Any, settings: Any, problem: str) -> None:
    with pytest.raises(aclgrad.InvalidSettingError, match=re.escape(problem)) as caught:
        connect(target, **settings)
    assert caught.value.field in ("target", "shared_memory")
    assert caught.value.remedy


async def test_a_list_of_one_server_is_that_server(connect: Connect) -> None:
    for target in (["a:1"], "a:1,a:1", ["a:1", "a:1"]):
        client = connect(target, shared_memory=True, credentials=TLS)
        assert client._servers.host == "a"  # noqa: SLF001


async def test_name_of_all_servers_or_an_option_of_the_user_will_do_for_tls(connect: Connect) -> None:
    connect("a:1,b:2", credentials=aclgrad.Credentials(server_name="gradients.example.org"))
    connect("a:1,b:2", credentials=TLS, channel_options=[("grpc.ssl_target_name_override", "a")])


def test_numbers_of_two_families_go_in_one_list() -> None:
    assert target_of(["1.2.3.4:5", "1.2.3.4:6"]) == "ipv4:1.2.3.4:5,1.2.3.4:6"
    assert target_of(["1.2.3.4:5", "[::1]:6"]) == "ipv6:[::ffff:1.2.3.4]:5,[::1]:6"
    assert target_of(["unix:/a", "unix:b"]) == "unix:/a,b"


@pytest.mark.parametrize("form", ["list", "text", "numbers", "names", "both_families"])
async def test_every_form_of_a_list_uses_all_its_servers(connect: Connect, form: str) -> None:
    workers = [Worker({SERVICE}) for _ in range(2)]
    with running(*workers):
        addresses = [each.address for each in workers]
        target: Any = {
            "list": addresses,
            "text": ", ".join(addresses),
            "numbers": f"ipv4:{','.join(addresses)}",
            "names": [f"localhost:{each.port}" for each in workers],
            "both_families": [addresses[0], f"[::ffff:127.0.0.1]:{workers[1].port}"],
        }[form]
        client = connect(target)
        assert client.target == (target if isinstance(target, str) else ",".join(target))
        await call(client, 2)
        wait_until(lambda: all(each._watches for each in workers))  # noqa: SLF001
        await call(client, 20)
        assert abs(len(workers[0].calls) - len(workers[1].calls)) <= 4
        assert not workers[0].looks + workers[1].looks


OTHER_PRODUCT = failing(aclgrad.OtherProductError("made for 910A", field="product"))


async def test_calls_for_another_product_find_its_server(connect: Connect) -> None:
    """Nothing is wrong with the other: it is not checked, and the budget keeps its retries."""
    other, its_own = ScriptedService(OTHER_PRODUCT), ScriptedService()
    workers = [Worker({SERVICE}) for _ in range(2)]
    reports: list[aclgrad.CallReport] = []
    with ExitStack() as stack:
        for service, worker in zip((other, its_own), workers, strict=True):
            service.address, _ = stack.enter_context(listening(service, worker))
        client = connect([other.address, its_own.address], retries=0, on_call=reports.append)
        while len(other.requests) < 10:
            await call(client)
        await asyncio.sleep(0)
        assert {each.error for each in reports} == {None}
        assert min(each.retry_budget for each in reports) == BURST
        its_own.answer = OTHER_PRODUCT
        asked = len(other.requests) + len(its_own.requests)
        with pytest.raises(aclgrad.OtherProductError, match=r"^made for 910A$"):
            await call(client)
        # Which one was first, gRPC does not say.
        assert len(other.requests) + len(its_own.requests) == asked + 3
        assert not workers[0].looks + workers[1].looks


async def test_unix_sockets(connect: Connect, tmp_path: Path) -> None:
    seen = []
    with serving(f"unix:{tmp_path}/a") as one, serving(f"unix:{tmp_path}/b") as other:
        for target in (f"unix:{tmp_path}/a,unix:{tmp_path}/b", f"unix:{tmp_path}/a,{tmp_path}/b"):
            client = connect(target)
            await call(client, 20)
            seen.append((len(one.requests), len(other.requests)))
    assert all(min(counts) > 3 for counts in seen)


async def test_dead_foreign_and_unknown_servers_get_nothing(connect: Connect, names: dict[str, list[str]]) -> None:
    worker, foreign = Worker({SERVICE}), Worker({"another.Service"})
    names["here"] = ["127.0.0.1"]
    with running(worker, foreign):
        client = connect(f"here:{worker.port},here:{foreign.port},here:1,nowhere.example:50051")
        await call(client, 10)
        assert (len(worker.calls), len(foreign.calls)) == (10, 0)


async def test_no_host_of_a_list_can_be_found(
    connect: Connect, names: dict[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    client = connect("a.example:1,b.example:2", connect_timeout_s=0.3)
    with pytest.raises(aclgrad.ServerUnreachableError, match=r"^a\.example:1,b\.example:2: no host of the list"):
        await call(client)
    assert "a.example:1 is left out: Name or service not known" in caplog.text
    # It is looked for again and again.
    worker = Worker({SERVICE})
    with running(worker):
        names["a.example"] = ["127.0.0.1"]
        client = connect(f"a.example:{worker.port},b.example:2")
        await call(client)


async def test_a_function_that_names_no_server_until_the_limit(connect: Connect) -> None:
    client = connect(lambda: "unix:/a", connect_timeout_s=0.3)
    told = r"<lambda>\(\): .* names none by host:port; correct the function"
    with pytest.raises(aclgrad.ServerUnreachableError, match=told):
        await call(client)


def failing(error: BaseException) -> Callable[[], Any]:
    def source() -> Any:
        raise error

    return source


FAILED = "the function that names the servers failed: "
SOURCES: list[tuple[Callable[[], Any], str]] = [
    (failing(LookupError("no server is ready")), f"{FAILED}LookupError: no server is ready"),
    (failing(SystemExit(1)), f"{FAILED}SystemExit: 1"),
    (failing(KeyboardInterrupt()), f"{FAILED}KeyboardInterrupt: "),
    (failing(asyncio.CancelledError()), f"{FAILED}CancelledError: "),
    (lambda: 7, "7: it is no string"),
    (lambda: "a;b", "'a;b': it names no port"),
    (lambda: "", "names no host"),
    (lambda: "unix:/a", "the function that names the servers names none by host:port"),
]


@pytest.mark.parametrize(("source", "problem"), SOURCES)
def test_whatever_a_function_does_is_an_error_of_ours(source: Callable[[], Any], problem: str) -> None:
    """The servers that are known stay then."""
    with pytest.raises(SourceError, match=re.escape(problem)):
        resolver.look_up(source, proxy_rules({}))


async def test_close_ends_a_call_that_waits_for_a_function(connect: Connect) -> None:
    asked, released = threading.Event(), threading.Event()

    def whereabouts() -> str:
        asked.set()
        released.wait(60)
        return "127.0.0.1:1"

    client = connect(whereabouts, timeout_s=None)
    task = begin(client, "pool", INPUTS)
    await asyncio.to_thread(asked.wait, 60)
    await end_as("close", client, task)
    released.set()


async def test_server_of_each_call_is_reported(connect: Connect) -> None:
    reports: list[aclgrad.CallReport] = []
    grad = np.ones((1, 1, 1), np.float32)
    with serve() as one, serve() as other:
        client = connect([one.target, other.target], on_call=reports.append)
        for _ in range(6):
            await maybe_await(client.adaptive_avg_pool2d_backward(grad, (1, 2, 2)))
        batch = client.batch()
        batch.adaptive_avg_pool2d_backward(grad, (1, 2, 2))
        await maybe_await(batch.run())
        one.fail(aclgrad.ServerFaultError("broken"))
        other.fail(aclgrad.ServerFaultError("broken"))
        with pytest.raises(aclgrad.ServerFaultError):
            await maybe_await(client.adaptive_avg_pool2d_backward(grad, (1, 2, 2)))
    assert {each.server for each in reports} == {one.target, other.target}
    assert len(reports) == 8


@pytest.mark.parametrize("target", ["127.0.0.1:1,127.0.0.1:2", "unix:/a,/b", "dns:///localhost:1"])
async def test_channels_with_health_checks_share_no_connection(connect: Connect, target: str) -> None:
    """In grpcio 1.85 they end the process by SIGSEGV if the connection breaks as another channel begins to check it."""
    route = connect(target)._servers.endpoints  # noqa: SLF001
    assert ("grpc.use_local_subchannel_pool", 1) in route.options


PORTS = (1001, 1002, 1003)
HOSTS: dict[str, tuple[pb.Host, list[int]]] = {
    "workers": (pb.Host(id=HOST_ID, listeners=[pb.Listener(port=1000, worker_ports=PORTS)]), [*PORTS]),
    "old": (pb.Host(), []),
    "alone": (pb.Host(id=HOST_ID, listeners=[pb.Listener(port=1000, worker_ports=[1001])]), []),
    "another_listener": (pb.Host(id=HOST_ID, listeners=[pb.Listener(port=1, worker_ports=PORTS)]), []),
    "no_id": (pb.Host(listeners=[pb.Listener(port=1000, worker_ports=PORTS)]), []),
    "long_id": (pb.Host(id="x" * 300, listeners=[pb.Listener(port=1000, worker_ports=PORTS)]), []),
    "no_ports": (
        pb.Host(id=HOST_ID, listeners=[pb.Listener(port=1000, worker_ports=[*PORTS, 0, 65536, 2**31 - 1])]),
        [*PORTS],
    ),
    "one_port_often": (pb.Host(id=HOST_ID, listeners=[pb.Listener(port=1000, worker_ports=[1001] * 5)]), []),
    "ports_of_a_scan": (
        pb.Host(id=HOST_ID, listeners=[pb.Listener(port=1000, worker_ports=range(1, 3000))]),
        [*range(1, 65)],
    ),
}


@pytest.mark.parametrize("told", HOSTS)
def test_the_workers_of_a_host_are_those_that_make_sense(told: str) -> None:
    """A client connects to no more places than a host has workers."""
    host, ports = HOSTS[told]
    assert servers_of("192.0.2.1:1000").workers(host) == tuple(f"192.0.2.1:{port}" for port in ports)


def test_a_name_server_of_the_target_is_for_grpc_alone() -> None:
    assert servers_of("dns:///a.example:1").names == ("a.example:1",)
    assert servers_of("dns:a.example:1").names == ("a.example:1",)
    assert servers_of("dns://192.0.2.1:53/a.example:1").names == ()
    assert servers_of("dns:///a.example:1", options={"grpc.service_config": "{}"}).names == ()


@pytest.mark.parametrize(
    ("target", "tls_name", "name"),
    [
        ("dns:///a.example:1", None, "a.example"),
        ("dns:///[::1]:1", None, "::1"),
        ("dns:///a.example:1", "b.example", "b.example"),
    ],
)
def test_numbers_of_a_name_have_its_certificates(target: str, tls_name: str | None, name: str) -> None:
    endpoints = servers_of(target, tls_name, has_tls=True).listed_endpoints(Found({"x": ("192.0.2.1:1",)}))
    assert endpoints is not None
    assert ("grpc.ssl_target_name_override", name) in endpoints.options


class ManyServers(Network):
    """A name that stands for more servers than are checked."""

    async def look_up(self, addresses: Addresses, rules: ProxyRules) -> Found:
        return Found({"a.example:1": tuple(f"192.0.2.1:{port}" for port in range(1, MOST_NAMED + 2))})

    async def check(self, endpoints: Endpoints, heard: set[str]) -> dict[str, Answer]:
        raise AssertionError("they are checked")

    def close(self, channel: Channel) -> None:
        raise AssertionError("the channel that follows the name is left")

    async def _reply(self, channel: Any, path: str, request: bytes, **options: Any) -> bytes:
        raise AssertionError("one is called")


async def test_a_name_of_very_many_servers_is_left_to_grpc() -> None:
    servers = servers_of("dns:///a.example:1")
    assert servers.endpoints is not None
    channels = ChannelPool(servers, lambda endpoints: Channel(endpoints, None))
    channels.start(Channel(servers.endpoints, None))
    before = channels.current
    await Discovery(channels, ManyServers(lambda _: None, ())).run()
    assert channels.current is before
    assert channels.present is not None
    assert len(channels.present.addresses) == MOST_NAMED + 1


def test_the_order_of_numbers_makes_no_other_servers() -> None:
    """Name servers change it with every answer."""
    one, other = (servers_of(each).endpoints for each in ("ipv4:192.0.2.1:1,192.0.2.2:1", "192.0.2.2:1,192.0.2.1:1"))
    assert one is not None
    assert other is not None
    assert one.has_same_servers(other)
    assert not one.has_same_servers(other.only(["192.0.2.1:1"]))
