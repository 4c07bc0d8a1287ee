"""`aclgrad-server probe` says by its exit code, in one line and in bounded time, how a server is."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aclgrad_server import probe
from aclgrad_server.settings import Settings
from tools.serving import Server, run_to_end

pytestmark = pytest.mark.once


def assert_unhealthy(done: subprocess.CompletedProcess[str], told: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert done.stderr.startswith("aclgrad-server: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("flags", "told"), [((), "ready"), (("--live",), "alive")], ids=["ready", "live"])
def test_server_that_serves(server: Server, flags: tuple[str, ...], told: str) -> None:
    done = run_to_end("probe", *flags, server.admin)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{server.admin}: {told}\n")


def test_address_is_where_a_server_of_this_environment_listens(server: Server, tmp_path: Path) -> None:
    port = server.admin.rpartition(":")[2]
    file = tmp_path / "aclgrad.toml"
    file.write_text(f'streams = 2\nadmin = "127.0.0.1:{port}"\n')
    for variables in (
        {"ACLGRAD_ADMIN": f"0.0.0.0:{port}", "http_proxy": "http://127.0.0.1:1"},
        {"ACLGRAD_ADMIN": "", "ACLGRAD_CONFIG": str(file)},
    ):
        done = run_to_end("probe", **variables)
        assert (done.returncode, done.stdout) == (0, f"127.0.0.1:{port}: ready\n"), done.stderr


def test_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACLGRAD_ADMIN", "ACLGRAD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert probe.configured_address() == Settings.model_fields["admin"].default
    assert probe.connectable("[::]:5") == "[::1]:5"
    for wrong in ("localhost", "off", "http://127.0.0.1:9464", "127.0.0.1:0"):
        with pytest.raises(ValueError, match="is not an address to ask; give host:port"):
            probe.connectable(wrong)
    file = tmp_path / "aclgrad.toml"
    monkeypatch.setenv("ACLGRAD_CONFIG", str(file))
    with pytest.raises(ValueError, match=str(file)):
        probe.configured_address()
    file.write_text("admin = = 2")
    with pytest.raises(ValueError, match=str(file)):
        probe.configured_address()


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Yields the address of something that answers every connection so, and then waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.recv(4096)
                connection.sendall(reply)
                connections.append(connection)

        connections: list[socket.socket] = []
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield "{}:{}".format(*listener.getsockname())
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in connections:
                each.close()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (b"\x00\x01nonsense\r\n\r\n", "the answer is not HTTP; give host:port as a server's --admin has it"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "HTTP status 404; give host:port"),
        (b"HTTP/1.1 503 x\r\ncontent-length: 18\r\n\r\nnot ready:\nbecause", "not ready: because"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "no answer within 0.5 s"),
    ],
    ids=["garbage", "other_server", "two_lines", "half"],
)
def test_answers_that_are_not_good(reply: bytes, told: str) -> None:
    timeout_s = "0.5" if "within" in told else "20"
    with answering(reply) as address:
        assert_unhealthy(run_to_end("probe", "--timeout-s", timeout_s, address), told)


def test_nobody_listens_and_a_process_that_hangs_does_not_hold_up_the_probe(server: Server) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*unused.getsockname())
        assert_unhealthy(run_to_end("probe", address), f"{address}: no answer: Connection refused")
    os.kill(server.process_id, signal.SIGSTOP)
    try:
        assert_unhealthy(run_to_end("probe", "--timeout-s", "0.3", server.admin), "no answer within 0.3 s")
    finally:
        os.kill(server.process_id, signal.SIGCONT)
