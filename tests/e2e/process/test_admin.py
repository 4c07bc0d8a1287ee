"""What the admin listener tells those who run a server, from before its devices are open to its end."""

import http.client
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

import aclgrad
from tests.e2e.fault_plans import once
from tools.calling import wait_until
from tools.serving import Server, announced, clean_environment, command, run_to_end, write_host_config

GRAD = np.ones((1, 1, 1), np.float32)
QUICK_S = 2.0
"""For one answer, on a busy machine."""


def ask(address: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def hanging_kernel(folder: Path, **host: int) -> str:
    return write_host_config(folder, faults=[{"kind": "hang", "at": 1, "duration_ms": 1500}], **host)


@contextmanager
def starting(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields a server that may not be ready yet, and its admin address."""
    with subprocess.Popen(
        command("--backend", "host", "--listen", "127.0.0.1:0", *flags),
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            name, _, address = process.stdout.readline().strip().partition(": ")
            assert name == "admin"
            yield process, address
        finally:
            process.kill()


def test_server_that_serves_is_alive_and_ready(server: Server) -> None:
    assert server.admin is not None
    assert ask(server.admin, "/livez") == (200, "alive\n")
    assert ask(server.admin, "/readyz") == (200, "ready\n")


@once
def test_server_that_starts_is_alive_and_not_ready(tmp_path: Path) -> None:
    """A kernel of the self-test takes its time."""
    with starting("--acl-config", hanging_kernel(tmp_path, faults_after_launches=0)) as (process, admin):
        assert ask(admin, "/livez") == (200, "alive\n")
        assert ask(admin, "/readyz") == (503, "not ready: starting\n")
        assert list(announced(process.stdout)) == ["ready"]
        assert ask(admin, "/readyz") == (200, "ready\n")


@once
def test_server_that_drains_is_alive_and_not_ready(tmp_path: Path) -> None:
    with (
        Server("--acl-config", hanging_kernel(tmp_path)) as server,
        aclgrad.Client(server.address) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        call = thread.submit(client.adaptive_avg_pool2d_backward, GRAD, (1, 2, 2))
        wait_until(lambda: client.server_status().queue.small_running_count == 1)
        server.ask_to_stop()
        wait_until(lambda: ask(server.admin, "/readyz") == (503, "not ready: draining\n"), 10)
        assert ask(server.admin, "/livez") == (200, "alive\n")
        assert call.result(60).shape == (1, 2, 2)
        assert server.exit_code() == 0
        with pytest.raises(ConnectionRefusedError):
            connect(server.admin)


@once
def test_server_without_its_device_is_not_ready(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "launch_error", "at": 1}])
    answers: set[tuple[int, str]] = set()

    def watch(admin: str) -> None:
        try:
            while True:
                answers.add(ask(admin, "/readyz"))
        except (OSError, http.client.HTTPException):
            return  # it has ended

    with Server("--acl-config", config) as server, aclgrad.Client(server.address, retries=0) as client:
        watcher = threading.Thread(target=watch, args=(server.admin,))
        watcher.start()
        with pytest.raises(aclgrad.DeviceLostError):
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        assert server.exit_code() == 4
        watcher.join(60)
    assert answers - {(200, "ready\n")} == {(503, "not ready: device lost\n")}


def test_clients_that_send_nothing_starve_nobody(server: Server) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(server.admin)) for _ in range(1000)]
        for each in silent[::2]:
            try:
                each.sendall(b"GET /livez HTTP/1.1\r\nHo")
            except OSError:
                continue  # one that had to make room
        for path in ("/livez", "/readyz") * 5:
            start = time.monotonic()
            assert ask(server.admin, path)[0] == 200
            assert time.monotonic() - start < QUICK_S
        assert psutil.Process(server.process_id).num_fds() < 700
        with aclgrad.Client(server.address) as client:
            assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).shape == (1, 2, 2)


def test_health_is_answered_while_every_stream_and_place_is_taken() -> None:
    stop = threading.Event()

    def call_until_stopped(address: str) -> None:
        with aclgrad.Client(address) as client:
            while not stop.is_set():
                client.adaptive_avg_pool2d_backward(GRAD, (1, 2048, 2048))

    with Server() as server, ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(call_until_stopped, server.address) for _ in range(16)]
        try:
            with aclgrad.Client(server.address) as client:
                wait_until(lambda: client.server_status().devices[0].pool.allocation_count > 20)
            for path in ("/livez", "/readyz") * 20:
                start = time.monotonic()
                assert ask(server.admin, path)[0] == 200
                assert time.monotonic() - start < QUICK_S
        finally:
            stop.set()
        for call in calls:
            call.result(60)


def test_silent_clients_do_not_hold_up_the_stop() -> None:
    with Server() as server, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(server.admin))
        start = time.monotonic()
        server.ask_to_stop()
        assert server.exit_code() == 0
        assert time.monotonic() - start < 10


def test_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", "--admin", address)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"aclgrad-server: cannot listen on {address}: Address already in use")
    assert "give another --admin" in done.stderr
    assert done.stderr.count("\n") == 1


def test_server_that_cannot_start_ends_although_its_admin_listener_runs() -> None:
    with starting("--device", "9") as (process, _):
        assert process.wait(60) == 1
        assert "ready" not in process.stdout.read()


def test_listener_may_be_off() -> None:
    with Server("--admin", "off") as server:
        assert server.admin is None
        listening = [each for each in psutil.Process(server.process_id).net_connections() if each.status == "LISTEN"]
        assert [each.laddr.port for each in listening] == [int(server.address.rpartition(":")[2])]


def test_uvicorn_writes_no_line_of_its_own() -> None:
    with Server("--log-level", "debug") as server:
        with connect(server.admin) as client:
            client.sendall(b"\x00\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 400")
        assert ask(server.admin, "/nowhere")[0] == 404
        server.ask_to_stop()
        assert server.exit_code() == 0
        assert "uvicorn" not in server.log
        assert "Invalid HTTP" not in server.log
