"""Both clients: several servers in one target, and the lists that make no sense."""

import asyncio
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad._client.channel import pool, resolver
from aclgrad._client.channel.resolver import target_of
from aclgrad.testing import serve
from tools.calling import maybe_await, wait_until

from .conftest import one_kind
from .scripted_service import serving
from .several_servers import INPUTS, SERVICE, Stranger, Worker, call, running, settled

Connect = Callable[..., Any]
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


async def moved(client: Any, worker: Worker) -> None:
    """Calls until the calls go to this server."""
    had = len(worker.calls)
    while len(worker.calls) == had:
        await call(client)


@one_kind
@pytest.mark.parametrize(("target", "settings", "problem"), REFUSED.values(), ids=REFUSED)
async def test_a_list_that_makes_no_sense(connect: Connect, target: Any, settings: Any, problem: str) -> None:
    with pytest.raises(aclgrad.InvalidSettingError, match=re.escape(problem)) as caught:
        connect(target, **settings)
    assert caught.value.field in ("target", "shared_memory")
    assert caught.value.remedy


@one_kind
async def test_a_list_of_one_server_is_that_server(connect: Connect) -> None:
    for target in (["a:1"], "a:1,a:1", ["a:1", "a:1"]):
        client = connect(target, shared_memory=True, credentials=TLS)
        assert client._servers.host == "a"  # noqa: SLF001


@one_kind
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


async def test_stranger_without_health_costs_no_call(connect: Connect) -> None:
    """gRPC takes it for healthy: calls meet it until one has."""
    worker, foreign = Worker({SERVICE}), Stranger()
    with running(worker, foreign):
        client = connect([foreign.address, worker.address], retries=0)
        while not foreign.calls:
            await call(client)
        await call(client, 10)
        assert len(foreign.calls) == 1


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


async def test_names_are_looked_up_again_after_a_loss(connect: Connect, names: dict[str, list[str]]) -> None:
    first, second = Worker({SERVICE}), Worker({SERVICE})
    names |= {"a": ["127.0.0.1"], "b": ["127.0.0.1"]}
    with running(first):
        client = connect(f"a:{first.port},b:{first.port}")
        await call(client, 2)
    names |= {"a": ["127.0.0.2"], "b": ["127.0.0.2"]}
    with running(second, ports=[first.port], host="127.0.0.2"):
        await call(client, 5)
        await settled(client)
        assert len(second.calls) == 5


async def test_a_function_names_the_servers_that_there_are_now(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lost connection, and without a call that fails."""
    monkeypatch.setattr(pool, "ASK_AGAIN_S", 0.0)
    first, second = Worker({SERVICE}), Worker({SERVICE})
    with running(first, second):
        present = [first.address]
        client = connect(lambda: present, retries=0)
        await call(client, 5)
        assert len(first.calls) == 5
        present[:] = [second.address]
        await moved(client, second)
        had = len(first.calls)
        await call(client, 5)
        assert len(first.calls) == had


async def test_a_function_that_fails_changes_nothing(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "ASK_AGAIN_S", 0.0)
    worker = Worker({SERVICE})
    answers: list[Any] = [LookupError("no server is ready"), None]

    def whereabouts() -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    with running(worker):
        answers[-1:] = [f"{worker.address},unix:/a", LookupError("not now"), 7, "a;b", ""]
        client = connect(whereabouts)
        assert client.target.endswith("whereabouts()")
        while answers != [""]:
            await call(client)
        await call(client, 3)
    for told in ("no server is ready", "not now", "7: it is no string", "'a;b': it names no port"):
        assert "the function that names the servers failed: " in caplog.text
        assert told in caplog.text
    assert "unix:/a is left out: a function names servers by host:port" in caplog.text


async def test_a_function_that_names_no_server_until_the_limit(connect: Connect) -> None:
    client = connect(lambda: (), connect_timeout_s=0.3)
    told = r"<lambda>\(\): the function that names the servers failed: InvalidSettingError: target is \[\]: it names no"
    with pytest.raises(aclgrad.ServerUnreachableError, match=told):
        await call(client)
    client = connect(lambda: "unix:/a", connect_timeout_s=0.3)
    with pytest.raises(aclgrad.ServerUnreachableError, match="names none by host:port; correct the function"):
        await call(client)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_a_function_that_ends_its_thread_is_asked_again(connect: Connect, error: BaseException) -> None:
    worker = Worker({SERVICE})
    errors = [error]

    def whereabouts() -> str:
        if errors:
            raise errors.pop()
        return worker.address

    with running(worker):
        await call(connect(whereabouts), 3)
    assert len(worker.calls) == 3


async def test_close_ends_a_call_that_waits_for_a_function(connect: Connect) -> None:
    asked, released = threading.Event(), threading.Event()

    def whereabouts() -> str:
        asked.set()
        released.wait(60)
        return "127.0.0.1:1"

    client = connect(whereabouts, timeout_s=None)
    blocks = isinstance(client, aclgrad.Client)
    waiting = asyncio.create_task(asyncio.to_thread(client.execute, "pool", INPUTS) if blocks else call(client))
    await asyncio.to_thread(asked.wait, 60)
    await maybe_await(client.close())
    with pytest.raises(aclgrad.CallCancelledError, match="the client is closed"):
        await waiting
    released.set()


async def test_slow_name_server_costs_no_more_than_the_time_of_the_call(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(resolver.socket, "getaddrinfo", lambda *_, **__: released.wait(30) and [])
    client = connect("a:1,b:2", timeout_s=0.2)
    with pytest.raises(aclgrad.DeadlinePassedError):
        await call(client)
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


@one_kind
@pytest.mark.parametrize("target", ["127.0.0.1:1,127.0.0.1:2", "unix:/a,/b", "dns:///localhost:1"])
async def test_channels_with_health_checks_share_no_connection(connect: Connect, target: str) -> None:
    """In grpcio 1.85 they end the process by SIGSEGV if the connection breaks as another channel begins to check it."""
    route = connect(target)._servers.endpoints  # noqa: SLF001
    assert ("grpc.use_local_subchannel_pool", 1) in route.options
