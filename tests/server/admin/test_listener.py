"""The admin listener answers its pages, and no client keeps it from answering others."""

import http.client
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from aclgrad_server.admin import listener
from aclgrad_server.admin.listener import MAX_CONNECTIONS, MAX_HEADER_BYTES, STOP_LIMIT_S, AdminListener
from aclgrad_server.admin.pages import pages
from aclgrad_server.devices.faults import StartError
from aclgrad_server.liveness import BEAT_LIMIT_S, Heartbeat
from aclgrad_server.settings import Settings
from aclgrad_server.state import ServerState


class Running:
    """A listener on a free port, with the clock of its heartbeat in the test's hands."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.state = ServerState(Settings(), heartbeat=Heartbeat(lambda: self.now_s))
        self.readiness = self.state.readiness
        self.listener = AdminListener("127.0.0.1:0", pages(self.state))
        self.address = self.listener.start()

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            connection.request(method, path, headers=headers)
            reply = connection.getresponse()
            assert str(reply.getheader("content-type")).startswith("text/plain; ")
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=10)


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.listener.stop()


def closed_after_s(connection: socket.socket) -> float:
    """Waits for the server's end of the connection, at most for the connection's time limit."""
    start = time.monotonic()
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - start


def test_pages_follow_heartbeat_and_readiness(running: Running) -> None:
    assert running.ask("/livez") == (200, "alive\n")
    assert running.ask("/readyz") == (503, "not ready: starting\n")
    running.readiness.set_ready()
    assert running.ask("/readyz") == (200, "ready\n")
    running.readiness.set_not_ready("draining")
    assert running.ask("/readyz") == (503, "not ready: draining\n")
    assert running.ask("/livez") == (200, "alive\n")


def test_hung_loop_is_neither_alive_nor_ready(running: Running) -> None:
    running.readiness.set_ready()
    running.now_s = BEAT_LIMIT_S + 2
    why = "the main loop has not run for 12 s (limit 10 s)\n"
    assert running.ask("/livez") == (503, f"not alive: {why}")
    assert running.ask("/readyz") == (503, f"not ready: {why}")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/livez/x", 404), ("POST", "/livez", 405)]
)
def test_nothing_else_is_served(running: Running, method: str, path: str, status: int) -> None:
    assert running.ask(path, method)[0] == status


def test_metrics_are_told_whatever_the_main_loop_does(running: Running) -> None:
    """It has not even begun, then it runs, then it hangs."""
    for age_s in (0.0, BEAT_LIMIT_S + 2):
        running.now_s = age_s
        status, text = running.ask("/metrics")
        assert status == 200
        assert f"\naclgrad_event_loop_heartbeat_age_seconds {age_s}\n" in text
        assert "\naclgrad_ready 0.0\n" in text
        running.readiness.set_ready()


def test_status_page_is_shown_while_the_main_loop_hangs(running: Running) -> None:
    running.readiness.set_ready()
    running.now_s = BEAT_LIMIT_S + 2
    with running.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reply = b""
        while part := connection.recv(4096):
            reply += part
    assert reply.startswith(b"HTTP/1.1 200")
    assert b"not ready: the main loop has not run for 12 s" in reply


def test_client_that_does_not_read_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get their answers meanwhile."""
    monkeypatch.setattr(listener, "CONNECTION_LIMIT_S", 0.5)
    with ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(20)]
        for each in silent:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert running.ask("/metrics")[0] == 200
        assert all(closed_after_s(each) < 5 for each in silent)


def test_connection_carries_one_request(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        reply = b""
        while part := connection.recv(4096):
            reply += part
    assert reply.count(b"HTTP/1.1 200") == 1


def test_silent_connections_starve_nobody(running: Running) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(2 * MAX_CONNECTIONS)]
        start = time.monotonic()
        assert running.ask("/livez")[0] == 200
        assert time.monotonic() - start < 2
        # The oldest made room: their ends are closed, the newest are open.
        assert closed_after_s(silent[0]) < 1
        assert all(closed_after_s(each) < 1 for each in silent[:MAX_CONNECTIONS])
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /livez HT", b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"], ids=len
)
def test_slow_client_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(listener, "CONNECTION_LIMIT_S", 0.2)
    with running.connect() as connection:
        connection.sendall(sent)
        assert closed_after_s(connection) < 5


def test_client_that_drips_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTION_LIMIT_S", 0.2)
    with running.connect() as connection:
        stop_s = time.monotonic() + 10
        while time.monotonic() < stop_s:
            try:
                connection.sendall(b"G")
            except OSError:
                return
            time.sleep(0.01)
    pytest.fail("a client may send forever")


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
        while connection.recv(4096):
            pass
    assert running.ask("/livez")[0] == 200
    assert caplog.text == ""


def test_port_that_is_taken_is_named(running: Running) -> None:
    with pytest.raises(
        StartError, match=f"cannot listen on {running.address}: Address already in use.*; give another --admin"
    ):
        AdminListener(running.address, ()).start()


def test_name_that_is_unknown_is_named() -> None:
    with pytest.raises(StartError, match=r"cannot listen on nowhere\.invalid:0: .*--admin"):
        AdminListener("nowhere.invalid:0", ()).start()


@pytest.mark.parametrize(
    ("address", "reachable"),
    [("[::1]:0", "::1"), ("[::]:0", "::1"), ("[::]:0", "127.0.0.1"), ("localhost:0", "localhost")],
)
def test_address_is_given_back_as_it_was_with_its_port(address: str, reachable: str) -> None:
    made = AdminListener(address, ())
    host, _, port = made.start().rpartition(":")
    try:
        assert f"{host}:0" == address
        with socket.create_connection((reachable, int(port)), timeout=10):
            pass
    finally:
        made.stop()


def test_stop_is_quick_whatever_clients_do_and_frees_the_port() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    running = Running()
    with running.connect() as silent:
        assert running.ask("/livez")[0] == 200
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        start = time.monotonic()
        running.listener.stop()
        assert time.monotonic() - start < STOP_LIMIT_S
        assert closed_after_s(silent) < 1
    with pytest.raises(ConnectionRefusedError):
        running.connect()


def test_listener_that_was_never_started_stops() -> None:
    AdminListener("127.0.0.1:0", ()).stop()
