"""A relay that passes, falls silent, is slow, and forgets its connections."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tools.lab.relay import Relay

SILENCE_S = 0.3


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay to a server that sends back what it receives."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        echoes = threading.Thread(target=_serve, args=(listener,))
        echoes.start()
        with Relay(listener.getsockname()[1]) as relay:
            yield relay
        listener.shutdown(socket.SHUT_RDWR)
        echoes.join()


def _serve(listener: socket.socket) -> None:
    threads = []
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        threads.append(threading.Thread(target=_echo, args=(connection,)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def _echo(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(65_536):
                connection.sendall(data)
        except OSError:
            pass


def connect(relay: Relay) -> socket.socket:
    host, port = relay.address.split(":")
    return socket.create_connection((host, int(port)), timeout=10.0)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    found = b""
    while len(found) < len(data):
        found += connection.recv(65_536)
    return found


def hears_nothing(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_S)
    try:
        return bool(connection.recv(1)) and False
    except TimeoutError:
        return True
    finally:
        connection.settimeout(10.0)


def test_bytes_pass(relay: Relay) -> None:
    data = bytes(range(256)) * 1000
    with connect(relay) as connection:
        assert echoed(connection, data) == data


def test_a_silent_relay_passes_what_it_has_afterwards(relay: Relay) -> None:
    with connect(relay) as old:
        assert echoed(old, b"a") == b"a"
        relay.be_silent()
        with connect(relay) as new:
            for each in (old, new):
                each.sendall(b"b")
                assert hears_nothing(each)
            relay.pass_again()
            assert old.recv(1) == new.recv(1) == b"b"


def test_a_slow_relay_takes_its_time(relay: Relay) -> None:
    with connect(relay) as connection:
        relay.be_slow(50_000)
        start = time.monotonic()
        assert echoed(connection, b"x" * 5000) == b"x" * 5000
        assert time.monotonic() - start >= 5000 / 50_000


def test_forgotten_connections_stay_open_and_new_ones_pass(relay: Relay) -> None:
    with connect(relay) as old, connect(relay) as new:
        assert echoed(old, b"a") == b"a"
        relay.forget()
        old.sendall(b"b")
        assert hears_nothing(old)
        new.close()
        with connect(relay) as another:
            assert echoed(another, b"c") == b"c"
