"""One client and a host of two workers: its calls are even, and whatever becomes of a worker costs it no call."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aclgrad
from aclgrad import CallReport
from tests.e2e.admin_pages import ask, value
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import GRAD, Host, calling, children_of
from tools.authority import Authority, write_identities
from tools.calling import AnyClient, maybe_await, wait_until

pytestmark = once
BOTH = ["worker 0: ready", "worker 1: ready"]
HOSTS_TIMEOUT_S = 12.0
"""Three times as long as a hung worker may hold a call."""


async def call(client: AnyClient) -> None:
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
    assert gradient.tolist() == [[[0.25] * 2] * 2]


def compute(client: aclgrad.Client) -> None:
    assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]


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
    for _ in range(100):
        await call(client)
    counts = Counter(report.server for report in reports)
    assert set(counts) == set(host.worker_addresses)
    assert max(counts.values()) <= 60


@pytest.mark.slow
async def test_tls_certificates_and_tokens(connect: Callable[..., AnyClient], tmp_path: Path) -> None:
    """The workers answer to the name that was dialled, those of a list to one that is given."""
    authority = Authority(tmp_path)
    rights = ["execute", "status"]
    identities = write_identities(
        tmp_path / "identities.toml", {"trainer": {"token": "trainers-token", "rights": rights}}
    )
    flags = *authority.server_flags(), "--tls-client-ca", authority.ca, "--identities", identities
    with Host(*flags, listen=("localhost:0",)) as secured:
        secured.wait_until_whole()
        certificate, key = authority.pair("client")
        given = {"ca": authority.ca, "certificate": certificate, "key": key}

        def connected(target: Any, token: str = "trainers-token", name: str | None = None, **options: Any) -> AnyClient:
            credentials = aclgrad.Credentials(**given, token=token, server_name=name)
            return connect(target, credentials=credentials, **options)

        for address in (secured.address, *secured.worker_addresses):
            with pytest.raises(aclgrad.ServerUnreachableError):
                await call(connect(address, connect_timeout_s=0.1))
            with pytest.raises(aclgrad.NotAuthenticatedError):
                await call(connected(address, "other", "localhost"))
            worker = (await maybe_await(connected(address, name="localhost").server_status())).worker
            assert address == secured.address or address in worker.addresses
        port = secured.address.rpartition(":")[2]
        for target, name in ((f"localhost:{port}", None), (list(secured.worker_addresses), "localhost")):
            reports: list[CallReport] = []
            await until_spread(connected(target, name=name, on_call=reports.append), reports)
            assert all(report.error is None for report in reports)
        elsewhere = connected(list(secured.worker_addresses), name="elsewhere.example", connect_timeout_s=0)
        with pytest.raises(aclgrad.TlsError, match="for another host"):
            await call(elsewhere)
        # Everybody may read the page, so it tells nothing of the machine.
        page = ask(secured.admin, "/")[1]
        for private in (*secured.worker_addresses, secured.address, identities, authority.ca):
            assert private not in page


@pytest.mark.slow
async def test_a_thousand_calls_at_once_neither_fail_nor_are_retried(host: Host) -> None:
    reports: list[CallReport] = []
    async with aclgrad.AsyncClient(host.address, on_call=reports.append) as client:
        for _ in range(3):
            reports.clear()
            await asyncio.gather(*(call(client) for _ in range(1000)))
            assert len(reports) == 1000
            assert not any(report.retries for report in reports)
            await until_spread(client, reports)


@contextmanager
def under_load(host: Host, reports: list[CallReport]) -> Iterator[list[BaseException]]:
    """Has four threads share a client of both workers in the block; yields the errors of calls."""
    with (
        aclgrad.Client(host.address, timeout_s=HOSTS_TIMEOUT_S, on_call=reports.append) as client,
        calling(partial(compute, client), 4) as errors,
    ):
        wait_until(lambda: len({report.server for report in reports[-8:]}) > 1 or bool(errors))
        yield errors


def test_worker_that_is_killed_costs_no_call_and_its_sibling_nothing(host: Host) -> None:
    reports: list[CallReport] = []
    sibling, address = host.worker_addresses
    restarts = [restarts_of(host, worker) for worker in (0, 1)]
    with (
        aclgrad.Client(sibling, retries=0) as client,
        calling(partial(compute, client)) as failures,
        under_load(host, reports) as errors,
    ):
        host.send_to_worker(1, signal.SIGKILL)
        wait_until(lambda: host.workers != BOTH)
        host.wait_until_whole()
        # And it is used again.
        wait_until(lambda: any(report.server == address for report in reports[-8:]))
    assert (errors, failures) == ([], [])
    assert [restarts_of(host, worker) for worker in (0, 1)] == [restarts[0], restarts[1] + 1]
    with aclgrad.Client(address) as client:
        worker = client.server_status().worker
        assert worker is not None
        assert worker.restart_count == restarts[1] + 1
    assert "worker 1 ended with signal 9; it starts again in " in host.log


def restarts_of(host: Host, worker: int) -> float:
    return value(host.admin, "aclgrad_worker_restarts_total", worker=str(worker)) or 0


@pytest.mark.slow
def test_renewal_under_load_costs_no_call(host: Host) -> None:
    """SIGHUP starts one worker after the other anew: each drains, and says so before it refuses."""
    reports: list[CallReport] = []
    before = {host.worker(0).pid, host.worker(1).pid}
    with under_load(host, reports) as errors:
        host.send(signal.SIGHUP)
        wait_until(lambda: host.workers != BOTH, 60)

        def is_renewed() -> bool:
            return host.workers == BOTH and not before & {each.pid for each in children_of(host.process_id)}

        wait_until(is_renewed, 60)
    assert errors == []
