"""A relay that passes, falls silent, is slow, and forgets its connections."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tools.lab.relay import Relay

SILENCE_S = 0.3


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65_536):
            self.request.sendall(data)


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay to a server that sends back what it receives."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.handle_error = lambda *_: None
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        with Relay(server.server_address[1]) as relay:
            yield relay
        server.shutdown()
        thread.join()


def connect(relay: Relay) -> socket.socket:
    host, port = relay.address.split(":")
    return socket.create_connection((host, int(port)), timeout=10.0)


def echoed(connection: socket.socket, data: bytes) -> bool:
    connection.sendall(data)
    found = b""
    while len(found) < len(data):
        found += connection.recv(65_536)
    return found == data


def hears_nothing(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_S)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(10.0)
    return True


def test_a_silent_relay_passes_what_it_has_afterwards_and_a_slow_one_takes_its_time(relay: Relay) -> None:
    with connect(relay) as old:
        assert echoed(old, bytes(range(256)) * 1000)
        relay.be_silent()
        with connect(relay) as new:
            for each in (old, new):
                each.sendall(b"b")
                assert hears_nothing(each)
            relay.pass_again()
            assert old.recv(1) == new.recv(1) == b"b"
        relay.be_slow(50_000)
        start = time.monotonic()
        assert echoed(old, b"x" * 5000)
        assert time.monotonic() - start >= 5000 / 50_000


def test_forgotten_connections_stay_open_and_new_ones_pass(relay: Relay) -> None:
    with connect(relay) as old:
        assert echoed(old, b"a")
        relay.forget()
        old.sendall(b"b")
        assert hears_nothing(old)
        with connect(relay) as another:
            assert echoed(another, b"c")
