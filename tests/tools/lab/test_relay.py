"""A relay that passes, falls silent, is slow, and forgets its connections."""

import socket
import socketserver
import threading
import time

import pytest

from tools.lab.relay import Relay


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65_536):
            self.request.sendall(data)


def connect(relay: Relay) -> socket.socket:
    host, port = relay.address.split(":")
    return socket.create_connection((host, int(port)), timeout=0.5)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return b"".join(iter(lambda: connection.recv(1), data[-1:]))


def test_what_a_relay_does_to_its_connections() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        with Relay(server.server_address[1]) as relay, connect(relay) as old:
            assert echoed(old, b"ab\n") == b"ab"
            relay.be_silent()
            with connect(relay) as new:
                for each in (old, new):
                    with pytest.raises(TimeoutError):
                        echoed(each, b"c\n")
                relay.pass_again()
                assert old.recv(2) == new.recv(2) == b"c\n"
            relay.be_slow(5_000)
            start = time.monotonic()
            assert echoed(old, b"x" * 500 + b"\n") == b"x" * 500
            assert time.monotonic() - start >= 500 / 5_000
            relay.pass_again()
            relay.forget()
            with pytest.raises(TimeoutError):
                echoed(old, b"d\n")
            with connect(relay) as another:
                assert echoed(another, b"e\n") == b"e"
        server.shutdown()
