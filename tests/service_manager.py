"""A service manager in place of systemd: what processes tell it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

ALIVE: Final = "WATCHDOG=1"


class ServiceManager:
    """The socket that NOTIFY_SOCKET names, and every line that was read from it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.lines: list[str] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    @property
    def told(self) -> list[str]:
        """The lines in their order, without the signs of life."""
        return [line for line in self.lines if line != ALIVE]

    @property
    def signs_of_life(self) -> int:
        return self.lines.count(ALIVE)

    def read(self) -> None:
        """Reads what has arrived."""
        with suppress(BlockingIOError):
            while True:
                self._take(socket.MSG_DONTWAIT)

    def read_on(self) -> None:
        """Reads until the socket is shut down."""
        while self._take():
            pass

    def _take(self, flags: int = 0) -> bytes:
        message = self.socket.recv(4096, flags)
        self.lines += message.decode().splitlines()
        return message


@contextmanager
def managing(folder: Path) -> Iterator[ServiceManager]:
    """Yields a manager that reads at once: its socket holds some ten messages, and that of systemd hundreds."""
    manager = ServiceManager(str(folder / "notify"))
    reader = Thread(target=manager.read_on)
    reader.start()
    try:
        yield manager
    finally:
        manager.socket.shutdown(socket.SHUT_RDWR)
        reader.join()
        manager.socket.close()
