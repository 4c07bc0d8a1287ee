"""A host of two workers: who answers where, what it says of itself, and that a worker which ends is soon back."""

import signal
from collections.abc import Iterator

import pytest

import aclgrad
from tests.e2e.admin_pages import ask, scrape, value
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import GRAD, Host, assert_computes, calling, text_of, worker_behind
from tools.calling import wait_until
from tools.serving import run_to_end

pytestmark = once


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host("--pool-bytes", "100000001", "--streams", "3") as host:
        yield host
        assert "Traceback" not in host.log


@pytest.fixture(autouse=True)
def whole(host: Host) -> None:
    host.wait_until_whole()


def test_each_worker_answers_at_its_own_address_and_both_at_the_shared_one(host: Host) -> None:
    assert len({host.address, *host.worker_addresses}) == 3
    for index, address in enumerate(host.worker_addresses):
        assert_computes(address)
        assert worker_behind(address) == index
    met: set[int] = set()
    wait_until(lambda: met.add(worker_behind(host.address)) or met == {0, 1})
    for index in (0, 1):
        assert f"INFO worker {index} aclgrad_server.server: serving" in host.log


def test_status_of_a_worker_tells_its_place_and_its_part(host: Host) -> None:
    for index, address in enumerate(host.worker_addresses):
        with aclgrad.Client(address) as client:
            status = client.server_status()
        worker = status.worker
        assert worker is not None
        assert (worker.index, worker.addresses) == (index, (address,))
        others = {sibling.index: sibling.addresses for sibling in worker.siblings}
        assert others == {1 - index: (host.worker_addresses[1 - index],)}
        assert set(host.worker_addresses) <= set(status.endpoints)
        # Of the card; two share it, and each has half, rounded up.
        assert [device.index for device in status.devices] == [0]
        assert status.queue.running_limit == 2
        assert status.queue.running_bytes_limit == 50_000_001
        assert status.process.limit_bytes > 0


def test_admin_listener_answers_for_all(host: Host) -> None:
    assert ask(host.admin, "/livez") == (200, "alive\n")
    assert ask(host.admin, "/readyz") == (200, "ready\nworker 0: ready\nworker 1: ready\n")
    for address in host.worker_addresses:
        assert_computes(address)
    series = scrape(host.admin)
    for worker in ("0", "1"):
        labels = {"worker": worker}
        assert value(host.admin, "aclgrad_worker_up", **labels) == 1
        assert value(host.admin, "aclgrad_ready", **labels) == 1
        calls = [
            each for (name, had), each in series.items() if name == "aclgrad_calls_total" and labels.items() <= had
        ]
        assert sum(calls) > 0
    assert all(sum(label == "worker" for label, _ in labels) == 1 for _, labels in series)
    status, page = ask(host.admin, "/")
    assert status == 200
    shown = text_of(page)
    assert all(address in shown for address in host.worker_addresses)


@pytest.mark.parametrize(
    ("flags", "which"),
    [
        (("--workers", "2"), "shared"),
        pytest.param((), "shared", marks=pytest.mark.slow),
        pytest.param((), "own", marks=pytest.mark.slow),
    ],
    ids=["another_host", "a_server", "a_server_on_a_worker's_own"],
)
def test_ports_of_the_host_are_not_for_others(host: Host, flags: tuple[str, ...], which: str) -> None:
    address = host.address if which == "shared" else host.worker_addresses[1]
    refused = run_to_end("--backend", "host", "--listen", address, *flags)
    assert (refused.returncode, refused.stdout) == (1, "")
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"aclgrad-server: cannot listen on {address}: ")
    assert last.endswith("; give another --listen")
    # A host knows before it starts anything.
    assert not flags or refused.stderr.count("\n") == 1
    assert "Traceback" not in refused.stderr


def test_worker_that_is_killed_costs_its_sibling_nothing_and_is_back(host: Host) -> None:
    before = host.worker(1).pid
    restarts = value(host.admin, "aclgrad_worker_restarts_total", worker="1")
    with calling(host.worker_addresses[0]) as failures:
        host.send_to_worker(1, signal.SIGKILL)
        wait_until(lambda: host.workers != ["worker 0: ready", "worker 1: ready"])
        # The port is not for others meanwhile, and the front door answers.
        with aclgrad.Client(host.address) as client:
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        host.wait_until_whole()
        assert_computes(host.worker_addresses[1])
    assert failures == []
    assert host.worker(1).pid != before
    assert value(host.admin, "aclgrad_worker_restarts_total", worker="1") == restarts + 1
    assert value(host.admin, "aclgrad_worker_restarts_total", worker="0") == 0
    with aclgrad.Client(host.worker_addresses[1]) as client:
        worker = client.server_status().worker
        assert worker is not None
        assert worker.restart_count == restarts + 1
    assert "worker 1 ended with signal 9; it starts again in 0 s" in host.log
