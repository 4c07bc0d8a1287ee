"""`aclgrad-server probe` says by its exit code, in one line and in bounded time, how a server is."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aclgrad_server import probe
from aclgrad_server.settings import Settings
from tools.serving import Server, run_to_end

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("flags", "told"), [((), "ready"), (("--live",), "alive")], ids=["ready", "live"])
def test_server_that_serves(server: Server, flags: tuple[str, ...], told: str) -> None:
    done = run_to_end("probe", *flags, server.admin)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{server.admin}: {told}\n")


@pytest.mark.parametrize(
    "variables",
    [
        {"ACLGRAD_ADMIN": "0.0.0.0:{port}"},
        {"ACLGRAD_ADMIN": "127.0.0.1:{port}", "http_proxy": "http://127.0.0.1:1"},
        {"ACLGRAD_ADMIN": "", "ACLGRAD_CONFIG": "{file}"},
    ],
    ids=["every_address", "proxy", "file"],
)
def test_address_is_where_a_server_of_this_environment_listens(
    server: Server, tmp_path: Path, variables: dict[str, str]
) -> None:
    port = server.admin.rpartition(":")[2]
    file = tmp_path / "aclgrad.toml"
    file.write_text(f'streams = 2\nadmin = "127.0.0.1:{port}"\n')
    done = run_to_end("probe", **{name: value.format(port=port, file=file) for name, value in variables.items()})
    assert (done.returncode, done.stdout) == (0, f"127.0.0.1:{port}: ready\n"), done.stderr


def test_default_is_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACLGRAD_ADMIN", "ACLGRAD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert probe.configured_address() == Settings.model_fields["admin"].default


def test_ipv6() -> None:
    with Server("--admin", "[::]:0") as server:
        assert run_to_end("probe", ACLGRAD_ADMIN=server.admin).returncode == 0
        assert run_to_end("probe", server.admin.replace("[::]", "127.0.0.1")).returncode == 0


def assert_unhealthy(done: subprocess.CompletedProcess[str], told: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert done.stderr.startswith("aclgrad-server: ")
    assert done.stderr.count("\n") == 1


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*unused.getsockname())
        assert_unhealthy(run_to_end("probe", address), f"{address}: no answer: Connection refused")


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
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "no answer within 0.3 s"),
    ],
    ids=["garbage", "other_server", "two_lines", "half"],
)
def test_answers_that_are_not_good(reply: bytes, told: str) -> None:
    with answering(reply) as address:
        assert_unhealthy(run_to_end("probe", "--timeout-s", "0.3", address), told)


def test_process_that_hangs_does_not_hold_up_the_probe() -> None:
    with Server() as server:
        os.kill(server.process_id, signal.SIGSTOP)
        try:
            start = time.monotonic()
            done = run_to_end("probe", "--timeout-s", "0.3", server.admin)
            assert time.monotonic() - start < 10
        finally:
            os.kill(server.process_id, signal.SIGCONT)
        assert_unhealthy(done, "no answer within 0.3 s")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--timeout-s", "0"), "--timeout-s: 0 is not between"),
        (("--timeout-s", "soon"), "--timeout-s"),
        (("--speed", "1"), "--speed"),
        (("localhost",), "'localhost' is not an address to ask; give host:port"),
        (("off",), "'off' is not an address to ask"),
        (("http://127.0.0.1:9464",), "'http://127.0.0.1:9464' is not an address to ask"),
        (("127.0.0.1:0",), "'127.0.0.1:0' is not an address to ask"),
    ],
)
def test_wrong_use(flags: tuple[str, ...], told: str) -> None:
    done = run_to_end("probe", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["admin = = 2", None], ids=["no_toml", "no_file"])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "aclgrad.toml"
    if text is not None:
        file.write_text(text)
    done = run_to_end("probe", ACLGRAD_ADMIN="", ACLGRAD_CONFIG=str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_word_that_is_no_command() -> None:
    done = run_to_end("prob")
    assert done.returncode == 2
    assert "prob" in done.stderr


def test_probe_starts_without_what_only_a_server_needs() -> None:
    program = (
        "import sys\nfrom aclgrad_server.__main__ import main\ntry:\n main()\nexcept SystemExit:\n print(*sys.modules)"
    )
    command = [sys.executable, "-c", program, "probe", "127.0.0.1:1"]
    loaded = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert "aclgrad_server.probe" in loaded
    assert not {"grpc", "pydantic", "click", "numpy", "uvicorn", "aclgrad"} & set(loaded)
