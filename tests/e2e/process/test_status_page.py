"""The status page of real servers: in each state, for everybody, and whatever its readers do."""

import http.client
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest

import aclgrad
from tests.e2e.fault_plans import once
from tests.e2e.process.test_admin import GRAD, connect, hanging_kernel, starting
from tools.authority import write_identities
from tools.calling import wait_until
from tools.serving import Server, announced, write_host_config


def ask(address: str, method: str = "GET", path: str = "/") -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply, reply.read().decode()
    finally:
        connection.close()


def test_the_page_and_nothing_beside_it(server: Server) -> None:
    with aclgrad.Client(server.address) as client:
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        with pytest.raises(aclgrad.InvalidFieldError):
            client.adaptive_avg_pool2d_backward(GRAD, (2, 2, 2))
    reply, page = ask(server.admin)
    assert (reply.status, reply.getheader("content-type")) == (200, "text/html; charset=utf-8")
    assert reply.getheader("cache-control") == "no-store"
    assert "default-src 'none'" in (reply.getheader("content-security-policy") or "")
    assert "not ready" not in page
    for part in ("Ascend910B1", "adaptive_avg_pool2d_backward", "INVALID_FIELD", "libacl_host.so"):
        assert part in page
    reply, body = ask(server.admin, "HEAD")
    assert (reply.status, body) == (200, "")
    for method, path, status in (("POST", "/", 405), ("DELETE", "/", 405), ("GET", "/status", 404), ("GET", "/x", 404)):
        assert ask(server.admin, method, path)[0].status == status


def test_what_is_private_is_shown_only_if_everybody_may_call(tmp_path: Path) -> None:
    config = tmp_path / "<script>alert(1)" / "aclgrad.toml"
    config.parent.mkdir()
    config.write_text("max_waiting_calls = 5")
    flags = ("--config", str(config), "--streams", "2")
    with Server(*flags) as server:
        page = ask(server.admin)[1]
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page
        for part in ("max_waiting_calls", "streams", "listen", "127.0.0.1:0"):
            assert f">{part}<" in page
    identities = write_identities(tmp_path / "identities.toml", {"monitor": {"token": "a-token", "rights": ["status"]}})
    with Server(*flags, "--identities", str(identities)) as server:
        page = ask(server.admin)[1]
        assert ">max_waiting_calls<" in page
        for part in ("alert", str(tmp_path), "identities", "monitor", "127.0.0.1", ">listen<", ">admin<", ">config<"):
            assert part not in page
        with aclgrad.Client(server.address, credentials=aclgrad.Credentials(token="a-token", tls=False)) as client:
            status = client.server_status()
        assert status.changed_settings["identities"] == str(identities)
        assert status.changed_settings["streams"] == "2"
        assert status.endpoints == server.addresses


@once
def test_page_while_the_server_starts_and_drains(tmp_path: Path) -> None:
    with starting("--acl-config", hanging_kernel(tmp_path, faults_after_launches=0)) as (process, admin):
        assert "not ready: starting" in ask(admin)[1]
        assert list(announced(process.stdout)) == ["ready"]
        assert "not ready" not in ask(admin)[1]
    with Server("--acl-config", hanging_kernel(tmp_path)) as server, aclgrad.Client(server.address) as client:
        waiting = threading.Thread(target=client.adaptive_avg_pool2d_backward, args=(GRAD, (1, 2, 2)))
        waiting.start()
        wait_until(lambda: client.server_status().queue.small_running_count == 1)
        server.ask_to_stop()
        wait_until(lambda: "not ready: draining" in ask(server.admin)[1], 10)
        waiting.join(60)
        assert server.exit_code() == 0


@once
def test_page_while_the_device_is_lost(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "launch_error", "at": 1}])
    pages: set[str] = set()

    def watch(admin: str) -> None:
        try:
            while True:
                pages.add(ask(admin)[1])
        except (OSError, http.client.HTTPException):
            return  # it has ended

    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        watcher = threading.Thread(target=watch, args=(server.admin,))
        watcher.start()
        with pytest.raises(aclgrad.DeviceLostError):
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        assert server.exit_code() == 4
        watcher.join(60)
    lost = [page for page in pages if "not ready: device lost" in page]
    assert lost
    assert all("device 0 (CPU as Ascend910B1) is down" in page for page in lost)


def test_browsers_that_never_read_hurt_nobody(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(600):
            deaf = stack.enter_context(connect(server.admin))
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            try:
                deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            except OSError:
                continue  # one that had to make room
        assert ask(server.admin)[0].status == 200
        assert psutil.Process(server.process_id).num_fds() < 700
        with aclgrad.Client(server.address) as client:
            assert np.all(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)) == 0.25)
