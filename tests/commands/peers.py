"""What may listen where a server of aclgrad is expected: other protocols, a proxy, nobody that answers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

Behaviour = Callable[[socket.socket], None]
LIMIT_S = 30


@contextmanager
def listening(behave: Behaviour) -> Iterator[str]:
    """Yields the address of a listener that treats each connection like this, on a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection = stack.enter_context(listener.accept()[0])
                    connection.settimeout(LIMIT_S)
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                behave(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def speak_http1(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def want_another_password(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")


def keep_silent(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


class HttpProxy:
    """Connects to the servers that it is asked for, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def behave(self, connection: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        self.requests.append(head.decode())
        host, _, port = head.split()[1].decode().rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), LIMIT_S) as server:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_copy, args=(server, connection), daemon=True)
            back.start()
            _copy(connection, server)
            back.join(LIMIT_S)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def dropping() -> Iterator[str]:
    """Yields an address whose packets the kernel drops, as a firewall does: the queue of its listener is full."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        while True:
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.3)
            try:
                waiting.connect(address)
            except TimeoutError:
                break
        yield f"127.0.0.1:{address[1]}"
