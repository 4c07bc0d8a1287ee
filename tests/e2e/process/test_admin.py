"""What the admin listener tells those who run a server: probes, metrics and the status page, in each state."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import aclgrad
from tests.e2e.admin_pages import ask, fetch, hanging_kernel, scrape, starting, value
from tests.e2e.fault_plans import once
from tools.calling import wait_until
from tools.serving import Server, announced

GRAD = np.ones((1, 1, 1), np.float32)


def test_server_that_serves(server: Server) -> None:
    with aclgrad.Client(server.address) as client:
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        with pytest.raises(aclgrad.InvalidFieldError):
            client.adaptive_avg_pool2d_backward(GRAD, (2, 2, 2))
    assert ask(server.admin, "/livez") == (200, "alive\n")
    assert ask(server.admin, "/readyz") == (200, "ready\n")
    reply, page = fetch(server.admin, "/")
    assert (reply.status, reply.getheader("content-type")) == (200, "text/html; charset=utf-8")
    assert reply.getheader("cache-control") == "no-store"
    assert "default-src 'none'" in (reply.getheader("content-security-policy") or "")
    assert "not ready" not in page
    for part in ("Ascend910B1", "adaptive_avg_pool2d_backward", "INVALID_FIELD", "libacl_"):
        assert part in page
    reply, body = fetch(server.admin, "/", "HEAD")
    assert (reply.status, body) == (200, "")
    for method, path, status in (("POST", "/", 405), ("DELETE", "/", 405), ("GET", "/status", 404)):
        assert fetch(server.admin, path, method)[0].status == status


@once
def test_server_without_workers_ignores_sighup(server: Server) -> None:
    """Whoever manages a host by SIGHUP does not end it where it has one card."""
    count = server.log.count("SIGHUP is ignored: only a supervisor renews its workers")
    server.send(signal.SIGHUP)
    wait_until(lambda: server.log.count("SIGHUP is ignored: only a supervisor renews its workers") == count + 1)
    assert ask(server.admin, "/readyz") == (200, "ready\n")


@once
def test_server_that_starts_is_alive_and_not_ready(tmp_path: Path) -> None:
    """A kernel of the self-test takes its time."""
    config = hanging_kernel(tmp_path, faults_after_launches=0)
    with starting(tmp_path / "log", "--acl-config", config) as (process, admin):
        assert ask(admin, "/livez") == (200, "alive\n")
        assert ask(admin, "/readyz") == (503, "not ready: starting\n")
        assert "not ready: starting" in ask(admin, "/")[1]
        found = scrape(admin)
        assert found["aclgrad_ready", frozenset()] == 0
        assert ("aclgrad_start_time_seconds", frozenset()) not in found
        assert list(announced(process.stdout)) == ["ready"]
        assert ask(admin, "/readyz") == (200, "ready\n")
        assert value(admin, "aclgrad_ready") == 1
        assert "not ready" not in ask(admin, "/")[1]


@once
def test_server_that_drains_answers_its_calls_is_alive_and_not_ready(tmp_path: Path) -> None:
    with (
        Server("--acl-config", hanging_kernel(tmp_path, 4000)) as server,
        aclgrad.Client(server.address) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        call = thread.submit(client.adaptive_avg_pool2d_backward, GRAD, (1, 2, 2))
        wait_until(lambda: value(server.admin, "aclgrad_running_calls", room="small") == 1)
        server.ask_to_stop()
        wait_until(lambda: ask(server.admin, "/readyz") == (503, "not ready: draining\n"))
        assert ask(server.admin, "/livez") == (200, "alive\n")
        assert "not ready: draining" in ask(server.admin, "/")[1]
        assert value(server.admin, "aclgrad_ready") == 0
        assert value(server.admin, "aclgrad_active_rpcs") == 1
        assert call.result(60).sum() == 1
        assert server.exit_code() == 0
        with pytest.raises(ConnectionRefusedError):
            ask(server.admin, "/livez")


@once
@pytest.mark.slow
def test_listener_may_be_off() -> None:
    with Server("--admin", "off") as server:
        assert server.admin is None
        listening = [each for each in psutil.Process(server.process_id).net_connections() if each.status == "LISTEN"]
        assert [each.laddr.port for each in listening] == [int(server.address.rpartition(":")[2])]
