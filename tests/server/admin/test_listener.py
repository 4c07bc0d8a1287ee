"""The admin listener answers its pages, and no client keeps it from answering others."""

import http.client
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from aclgrad_server.admin import listener
from aclgrad_server.admin.listener import MAX_HEADER_BYTES, AdminListener
from aclgrad_server.admin.pages import pages
from aclgrad_server.exits import StartError
from aclgrad_server.liveness import BEAT_LIMIT_S, Heartbeat
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings
from tools.calling import wait_until

LIMIT_S = 60


class Running:
    """A listener on a free port, with the clock of its heartbeat in the test's hands."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.state = ServerView(Settings(), heartbeat=Heartbeat(lambda: self.now_s))
        self.readiness = self.state.readiness
        self.listener = AdminListener("127.0.0.1:0", pages(self.state))
        self.address = self.listener.start()

    def hang(self) -> None:
        self.now_s = BEAT_LIMIT_S + 2

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=LIMIT_S)
        try:
            connection.request(method, path, headers=headers)
            reply = connection.getresponse()
            assert str(reply.getheader("content-type")).startswith("text/plain; ")
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=LIMIT_S)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.listener.stop()


@pytest.fixture
def fresh() -> Iterator[Running]:
    """A listener that the test changes or stops."""
    fresh = Running()
    yield fresh
    fresh.listener.stop()


def all_of(connection: socket.socket) -> bytes:
    """Waits for the server's end of the connection and returns what came before; fails after `LIMIT_S`."""
    reply = b""
    try:
        while part := connection.recv(4096):
            reply += part
    except ConnectionResetError:
        pass
    return reply


def test_pages_follow_heartbeat_and_readiness_whatever_the_main_loop_does(fresh: Running) -> None:
    """It has not even begun, then it runs, then it stops, then it hangs."""
    why = "the main loop has not run for 12 s (limit 10 s)\n"
    readiness = fresh.readiness
    for change, live, ready in (
        (lambda: None, (200, "alive\n"), (503, "not ready: starting\n")),
        (lambda: readiness.change(None), (200, "alive\n"), (200, "ready\n")),
        (lambda: readiness.change("draining"), (200, "alive\n"), (503, "not ready: draining\n")),
        (lambda: readiness.change(None), (200, "alive\n"), (200, "ready\n")),
        (fresh.hang, (503, f"not alive: {why}"), (503, f"not ready: {why}")),
    ):
        change()
        assert (fresh.ask("/livez"), fresh.ask("/readyz")) == (live, ready)
        status, metrics = fresh.ask("/metrics")
        assert status == 200
        assert f"\naclgrad_event_loop_heartbeat_age_seconds {fresh.now_s}\n" in metrics
        assert f"\naclgrad_ready {float(ready[0] == 200)}\n" in metrics
    with fresh.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        page = all_of(connection)
    assert page.startswith(b"HTTP/1.1 200")
    assert b"not ready: the main loop has not run for 12 s" in page


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/livez/x", 404), ("POST", "/livez", 405)]
)
def test_nothing_else_is_served(running: Running, method: str, path: str, status: int) -> None:
    assert running.ask(path, method)[0] == status


def test_client_that_does_not_read_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get their answers meanwhile."""
    monkeypatch.setattr(listener, "CONNECTION_LIMIT_S", 0.5)
    with ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(20)]
        for each in silent:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert running.ask("/metrics")[0] == 200
        for each in silent:
            all_of(each)


def test_connection_carries_one_request(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        reply = all_of(connection)
    assert reply.count(b"HTTP/1.1 200") == 1


def test_silent_connections_starve_nobody(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not because their own time is over."""
    monkeypatch.setattr(listener, "CONNECTION_LIMIT_S", 3600)
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 32)
    with ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(64)]
        assert running.ask("/livez")[0] == 200
        # The oldest made room: their ends are closed, the newest are open.
        for each in silent[:32]:
            all_of(each)
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /livez HT", b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"], ids=len
)
def test_slow_client_is_cut_off_also_if_it_drips(
    running: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(listener, "CONNECTION_LIMIT_S", 0.2)
    with running.connect() as silent, running.connect() as dripping:
        silent.sendall(sent)
        all_of(silent)

        def is_cut() -> bool:
            try:
                dripping.sendall(b"G")
            except OSError:
                return True
            return False

        wait_until(is_cut)


def test_large_header_is_refused(running: Running) -> None:
    assert running.ask("/livez", x="y" * (MAX_HEADER_BYTES // 2))[0] == 200
    with running.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nx: " + b"y" * (MAX_HEADER_BYTES + 1))
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_garbage_is_answered_and_not_logged(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    with running.connect() as connection:
        connection.sendall(b"\x00\xff\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    with running.connect() as connection:
        # The head is sound, so a page answers it; the body is not, so the connection is over by then.
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        all_of(connection)
    assert running.ask("/livez")[0] == 200
    assert caplog.text == ""


def test_without_files_it_logs_once_and_recovers(
    running: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    host, _, port = running.address.rpartition(":")
    tries = []
    accept = socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", lambda each: (tries.append(each), accept(each))[1])
    # asyncio's own pause, and ours, which ends before.
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.1)
    monkeypatch.setattr(listener, "_PAUSE_S", 0.05)

    def ask(connection: socket.socket) -> None:
        connection.connect((host, int(port)))
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")

    with ExitStack() as stack:
        first, *waiting = (stack.enter_context(socket.socket()) for _ in range(20))
        ask(first)
        assert all_of(first).startswith(b"HTTP/1.1 200")
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        tries.clear()
        try:
            for each in waiting:
                ask(each)
            # It is tried again after each pause.
            wait_until(lambda: len(tries) >= 3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        told = (
            "health checks wait for a file: Too many open files; raise the limit of open files (ulimit -n, LimitNOFILE)"
        )
        assert [record.getMessage() for record in caplog.records] == [told]
        for each in waiting:
            each.settimeout(LIMIT_S)
            assert all_of(each).startswith(b"HTTP/1.1 200")


def test_address_that_cannot_be_used_is_named(running: Running) -> None:
    for address, why in ((running.address, "Address already in use"), ("nowhere.invalid:0", "")):
        with pytest.raises(StartError, match=rf"cannot listen on {address}: {why}.*; give another --admin"):
            AdminListener(address, {}).start()


@pytest.mark.parametrize(
    ("address", "reachable"),
    [("[::1]:0", "::1"), ("[::]:0", "::1"), ("[::]:0", "127.0.0.1"), ("localhost:0", "localhost")],
)
def test_address_is_given_back_as_it_was_with_its_port(address: str, reachable: str) -> None:
    made = AdminListener(address, {})
    host, _, port = made.start().rpartition(":")
    try:
        assert f"{host}:0" == address
        with socket.create_connection((reachable, int(port)), timeout=LIMIT_S):
            pass
    finally:
        made.stop()


def test_stop_waits_for_no_client_and_frees_the_port(fresh: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STOP_LIMIT_S", 60)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with fresh.connect() as silent:
        assert fresh.ask("/livez")[0] == 200
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        threads = set(threading.enumerate())
        fresh.listener.stop()
        assert "admin" in {thread.name for thread in threads - set(threading.enumerate())}
        all_of(silent)
    with pytest.raises(ConnectionRefusedError):
        fresh.connect()


def test_listener_that_was_never_started_stops() -> None:
    AdminListener("127.0.0.1:0", {}).stop()
