"""A host of two workers: who answers where, and what it says of itself."""

import signal
from pathlib import Path

import pytest

import aclgrad
from tests.e2e.fault_plans import once
from tests.e2e.workers.hosts import GRAD, Host, assert_computes, worker_behind
from tests.service_manager import ServiceManager
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.serving import run_to_end

pytestmark = once


def test_each_worker_answers_at_its_own_address_and_both_at_the_shared_one(host: Host, manager: ServiceManager) -> None:
    """Each tells its place and its part. Only the supervisor tells systemd of itself."""
    assert len({host.address, *host.worker_addresses}) == 3
    for index, address in enumerate(host.worker_addresses):
        assert_computes(address)
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
        assert f"INFO worker {index} aclgrad_server.server: serving" in host.log
    met: set[int] = set()
    wait_until(lambda: met.add(worker_behind(host.address)) or met == {0, 1})
    ready = manager.told.index("READY=1")
    both = [f"STATUS={count} of 2 workers are ready" for count in (1, 2)]
    assert manager.told[ready + 1 : ready + 3] == both
    assert {each for each in manager.told if each.startswith("STATUS=")} <= {*both, "STATUS=0 of 2 workers are ready"}


@pytest.mark.slow
@once
@pytest.mark.parametrize("wrong", ["pair", "mode", "identities"])
def test_wrong_files_end_the_start_at_once_in_one_line(tmp_path: Path, wrong: str) -> None:
    """No worker is started, which would take seconds to find the same."""
    authority = Authority(tmp_path)
    certificate, key = authority.pair("server")
    identities = write_identities(tmp_path / "identities.toml", {"trainer": {"rights": ["execute"]}})
    if wrong == "pair":
        _, key = authority.pair("other")
    if wrong == "mode":
        Path(key).chmod(0o644)
    files = "--tls-certificate", certificate, "--tls-key", key
    flags = files if wrong != "identities" else ("--identities", identities)
    done = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", "--workers", "2", *flags)
    assert done.returncode == 1
    (line,) = (each for each in done.stderr.splitlines() if " INFO " not in each)
    named = {"pair": f"{certificate} cannot be used with {key}: ", "mode": f"others may use the key {key}; chmod it to"}
    assert line.startswith(f"aclgrad-server: {named.get(wrong, identities)}")
    assert "starting 2 workers" not in done.stderr


@once
def test_unix_sockets_of_workers(tmp_path: Path) -> None:
    path = f"unix:{tmp_path}/socket"
    with Host("--unix-socket-mode", "0600", listen=(path, "127.0.0.1:0")) as host:
        assert host.addresses[0] == path
        assert host.worker_addresses == (path, f"{path}.1")
        assert [worker_behind(address) for address in host.worker_addresses] == [0, 1]
        for name in ("socket", "socket.1"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        host.send_to_worker(0, signal.SIGKILL)
        wait_until(lambda: host.workers[0] != "worker 0: ready")
        host.wait_until_whole()
        assert worker_behind(path) == 0
        with aclgrad.Client(host.addresses[1]) as client:
            assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).sum() == 1
