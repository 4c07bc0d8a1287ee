"""One client and a host of two workers: its calls are even, and whatever becomes of a worker costs it no call."""

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import aclgrad
from aclgrad import CallReport
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import GRAD, Host, children_of
from tools.authority import Authority, write_identities
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import free_range

pytestmark = once
BOTH = ["worker 0: ready", "worker 1: ready"]
HOSTS_TIMEOUT_S = 12.0
"""Three times as long as a hung worker may hold a call."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as host:
        yield host
        assert "Traceback" not in host.log


@pytest.fixture(autouse=True)
def whole(host: Host) -> None:
    host.wait_until_whole()


async def call(client: AnyClient) -> None:
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
    assert gradient.tolist() == [[[0.25] * 2] * 2]


async def until_spread(client: AnyClient, reports: list[CallReport]) -> None:
    """Makes calls until both workers have answered some of the last."""
    end = time.monotonic() + 30
    while len({report.server for report in reports[-8:]}) < 2 or len(reports) < 16:
        await call(client)
        assert time.monotonic() < end


async def test_calls_are_even_and_name_the_worker(connect: Callable[..., AnyClient], host: Host) -> None:
    reports: list[CallReport] = []
    client = connect(host.address, on_call=reports.append)
    await until_spread(client, reports)
    reports.clear()
    for _ in range(400):
        await call(client)
    counts = Counter(report.server for report in reports)
    assert set(counts) == set(host.worker_addresses)
    assert max(counts.values()) <= 1.1 * 200


async def test_list_of_the_workers_own_addresses_is_even_too(connect: Callable[..., AnyClient], host: Host) -> None:
    reports: list[CallReport] = []
    client = connect(list(host.worker_addresses), on_call=reports.append)
    await until_spread(client, reports)
    reports.clear()
    for _ in range(100):
        await call(client)
    assert max(Counter(report.server for report in reports).values()) <= 60


async def test_errors_name_the_worker(connect: Callable[..., AnyClient], host: Host) -> None:
    reports: list[CallReport] = []
    client = connect(host.address, on_call=reports.append)
    with pytest.raises(aclgrad.UnknownOperatorError):
        await maybe_await(client.execute("nothing", {"a": GRAD}))
    assert reports[-1].server in host.worker_addresses


@pytest.mark.slow
async def test_tls_certificates_and_tokens(connect: Callable[..., AnyClient], tmp_path: Path) -> None:
    """The workers answer to the name that was dialled, those of a list to one that is given."""
    authority = Authority(tmp_path)
    identities = write_identities(tmp_path / "identities.toml", {"trainer": {"token": "trainers-token"}})
    flags = *authority.server_flags(), "--tls-client-ca", authority.ca, "--identities", identities
    with Host(*flags, listen=("localhost:0",)) as secured:
        secured.wait_until_whole()
        certificate, key = authority.pair("client")
        given = {"ca": authority.ca, "certificate": certificate, "key": key, "token": "trainers-token"}
        port = secured.address.rpartition(":")[2]
        for target, name in ((f"localhost:{port}", None), (list(secured.worker_addresses), "localhost")):
            reports: list[CallReport] = []
            client = connect(target, credentials=aclgrad.Credentials(**given, server_name=name), on_call=reports.append)
            await until_spread(client, reports)
            assert all(report.error is None for report in reports)
        client = connect(
            list(secured.worker_addresses),
            credentials=aclgrad.Credentials(**given, server_name="elsewhere.example"),
            connect_timeout_s=0,
        )
        with pytest.raises(aclgrad.TlsError, match="for another host"):
            await call(client)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["front_door", "list"])
async def test_a_thousand_calls_at_once_neither_fail_nor_are_retried(host: Host, way: str) -> None:
    reports: list[CallReport] = []
    target: Any = host.address if way == "front_door" else list(host.worker_addresses)
    async with aclgrad.AsyncClient(target, on_call=reports.append) as client:
        for _ in range(2):
            reports.clear()
            await asyncio.gather(*(call(client) for _ in range(1000)))
            assert len(reports) == 1000
            assert not any(report.retries for report in reports)
        await until_spread(client, reports)
        reports.clear()
        await asyncio.gather(*(call(client) for _ in range(1000)))
        assert not any(report.retries for report in reports)


@contextmanager
def under_load(target: Any, reports: list[CallReport]) -> Iterator[list[BaseException]]:
    """Has four threads share a client in the block; yields the errors of calls."""
    errors: list[BaseException] = []
    done = threading.Event()
    with aclgrad.Client(target, timeout_s=HOSTS_TIMEOUT_S, on_call=reports.append) as client:

        def run() -> None:
            while not done.is_set():
                try:
                    assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]
                except BaseException as error:
                    errors.append(error)
                done.wait(0.002)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len({report.server for report in reports[-8:]}) > 1 or bool(errors))
            yield errors
            before = len(reports)
            wait_until(lambda: len(reports) > before + 50 or bool(errors))
        finally:
            done.set()
            for thread in threads:
                thread.join(60)


def test_worker_that_is_killed_costs_no_call(host: Host) -> None:
    reports: list[CallReport] = []
    with under_load(host.address, reports) as errors:
        host.send_to_worker(1, signal.SIGKILL)
        wait_until(lambda: host.workers != BOTH)
        host.wait_until_whole()
        # And it is used again.
        address = host.worker_addresses[1]
        wait_until(lambda: any(report.server == address for report in reports[-8:]))
    assert errors == []


@pytest.mark.slow
def test_renewal_under_load_costs_no_call(host: Host) -> None:
    """SIGHUP starts one worker after the other anew: each drains, and says so before it refuses."""
    reports: list[CallReport] = []
    before = {host.worker(0).pid, host.worker(1).pid}
    with under_load(host.address, reports) as errors:
        host.send(signal.SIGHUP)
        wait_until(lambda: host.workers != BOTH, 60)

        def is_renewed() -> bool:
            return host.workers == BOTH and not before & {each.pid for each in children_of(host.process_id)}

        wait_until(is_renewed, 60)
    assert errors == []


@pytest.mark.slow
@pytest.mark.long
async def test_host_that_starts_anew_with_more_workers(connect: Callable[..., AnyClient]) -> None:
    """Its id is another one, and it has more of them."""
    reports: list[CallReport] = []
    port = free_range(3)
    with Host(listen=(f"127.0.0.1:{port}",)) as first:
        first.wait_until_whole()
        client = connect(first.address, on_call=reports.append)
        await until_spread(client, reports)
        old = first.worker_addresses
    with Host("--workers", "3", listen=(f"127.0.0.1:{port}",)) as second:
        wait_until(lambda: [each.partition(": ")[2] for each in second.workers] == ["ready"] * 3, 60)
        workers = {f"127.0.0.1:{port + 1 + index}" for index in range(3)}
        assert set(old) < workers
        end = time.monotonic() + 30
        while {report.server for report in reports[-12:]} != workers:
            await call(client)
            assert time.monotonic() < end
    assert all(report.error is None for report in reports)
